#include "exact/search.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "check/check.hpp"
#include "exact/crew.hpp"
#include "exact/parts.hpp"
#include "heuristics/order_packer.hpp"
#include "heuristics/orders.hpp"
#include "problem/checked.hpp"

namespace lowtide {
namespace {

constexpr std::int64_t kLeastBudget = 250;  // nodes of the shortest runs
constexpr int kTries = 2;                   // at each intermediate target
constexpr double kFirstStep = 0.5;          // of the gap, from the arena down to an intermediate target
constexpr double kLongestStep = 0.6;
constexpr double kShortestStep = 0.04;

// 1 1 2 1 1 2 4 ...: the restart sequence of Luby, Sinclair and Zuckerman (1993); i counts from 1.
std::int64_t luby(std::int64_t i) {
  for (;;) {
    std::int64_t power = 1;
    while (2 * power - 1 < i) power *= 2;
    if (2 * power - 1 == i) return power;
    i -= power - 1;
  }
}

// How the search of one part goes on.
struct Course {
  Bytes arena = kNone;            // of the best packing so far
  std::int64_t turns = 0;         // runs so far
  std::int64_t modest_turns = 0;  // of these, not for the goal itself
  double step = kFirstStep;       // from the arena down to the next intermediate target, as part of the gap
  int tries = 0;                  // with that step so far
  Index radius = 1;               // of the window around the peak, in sections
  std::int64_t window_turns = 0;
};

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        options_(options),
        parts_(problem, options.rules),
        crew_(parts_, options.rules, options.seed, options.threads),
        courses_(parts_.list().size()) {
    if (options.fit && problem.capacity == kNone) {
      throw std::invalid_argument("to look for a fit, the problem needs a capacity");
    }
    result_.offset = parts_.empty_offsets();
    result_.lower_bound = parts_.bound();
  }

  SearchResult run() {
    note();
    adopt(options_.incumbent);
    adopt(first_fit("size"));  // whatever the clock says: anytime means that there is a plan
    if (!stopped()) adopt(first_fit("area"));
    while (!stopped()) {
      const std::vector<Task> tasks = plan_round();
      if (tasks.empty()) return finish(Stopped::kExhausted);
      const auto reports =
          crew_.run(tasks, [&] { return poll(); }, [&](const Report& r) { return decides(tasks, r); });
      for (std::size_t w = 0; w < tasks.size() && !is_done(); ++w) learn(tasks[w], reports[w]);
      ++result_.rounds;
      if (options_.node_limit > 0 && result_.nodes >= options_.node_limit && !stopped()) {
        return finish(Stopped::kNodes);
      }
    }
    return finish(*why_);
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  // No packing above this is of interest, none below it is possible.
  Bytes goal() const { return options_.fit ? problem_.capacity : result_.lower_bound; }

  bool is_open(std::size_t part) const {
    return courses_[part].arena == kNone || courses_[part].arena > goal();
  }

  Bytes arena() const {
    Bytes arena = problem_.reserved;
    for (const Course& course : courses_) {
      if (course.arena == kNone) return kNone;
      arena = std::max(arena, course.arena);
    }
    return arena;
  }

  bool is_done() const { return arena() != kNone && arena() <= goal(); }

  bool stopped() {
    if (why_ && *why_ != Stopped::kDeadline && *why_ != Stopped::kInterrupted) return true;
    if (impossible_ || (options_.fit && result_.lower_bound > problem_.capacity)) {
      why_ = Stopped::kInfeasible;
    } else if (is_done()) {
      why_ = arena() <= result_.lower_bound ? Stopped::kOptimal : Stopped::kFit;
    } else if (!why_) {
      poll();
    }
    return why_.has_value();
  }

  // Looks at the clock and at what the caller wants.
  bool poll() {
    const double now = seconds();
    if (options_.progress && now - reported_ > 0.1) {
      reported_ = now;
      options_.progress({now, arena(), result_.lower_bound, result_.nodes});
    }
    if (options_.interrupted && options_.interrupted()) {
      why_ = Stopped::kInterrupted;
    } else if (options_.deadline > 0 && now >= options_.deadline) {
      why_ = Stopped::kDeadline;
    }
    return why_.has_value();
  }

  // Writes down the state if it differs from what was written last.
  void note() {
    const Bytes best = arena();
    if (!result_.history.empty() && result_.history.back().arena == best &&
        result_.history.back().lower_bound == result_.lower_bound) {
      return;
    }
    result_.history.push_back({seconds(), best, result_.lower_bound, result_.nodes});
    if (options_.progress) options_.progress(result_.history.back());
  }

  std::vector<Bytes> first_fit(const char* order) const {
    return pack_in_order(problem_, order_by(problem_, order), Fit::kFirst).offset;
  }

  // Takes over each part of a packing that is right and better than what is known.
  void adopt(const std::vector<Bytes>& offset) {
    if (static_cast<Index>(offset.size()) != problem_.count()) return;
    const CheckResult checked = check(problem_, offset, 10'000);
    if (checked.truncated) return;
    std::vector<char> is_wrong(problem_.count());
    for (const Violation& violation : checked.violations) {
      if (violation.kind == Violation::Kind::kCapacity) continue;
      is_wrong[violation.i] = 1;
      if (violation.j >= 0) is_wrong[violation.j] = 1;
    }
    for (std::size_t p = 0; p < courses_.size(); ++p) {
      const Part& part = parts_.list()[p];
      bool right = true;
      for_each_buffer(part, [&](Index i) { right = right && !is_wrong[i]; });
      const Bytes found = right ? parts_.arena_of(part, offset) : kNone;
      if (!right || (courses_[p].arena != kNone && found >= courses_[p].arena)) continue;
      courses_[p].arena = found;
      for_each_buffer(part, [&](Index i) { result_.offset[i] = offset[i]; });
    }
    note();
  }

  template <class Visit>
  void for_each_buffer(const Part& part, Visit&& visit) const {
    for (const Index u : part.units) {
      for (const Member& member : parts_.units().members(parts_.units()[u])) visit(member.buffer);
    }
  }

  // One task a worker; the open parts take turns. Empty if none is fit for search.
  std::vector<Task> plan_round() {
    std::vector<Index> open;
    for (std::size_t p = 0; p < courses_.size(); ++p) {
      if (is_open(p) && parts_.list()[p].searchable) open.push_back(static_cast<Index>(p));
    }
    std::vector<Task> tasks;
    if (open.empty()) return tasks;
    for (int w = 0; w < crew_.size(); ++w) {
      const auto turn = static_cast<std::size_t>(result_.rounds) * crew_.size() + w;
      tasks.push_back(plan_task(open[turn % open.size()]));
      if (options_.node_limit > 0) {
        const std::int64_t left = (options_.node_limit - result_.nodes) / crew_.size();
        tasks.back().nodes = std::clamp<std::int64_t>(left, 1, tasks.back().nodes);
      }
    }
    return tasks;
  }

  // Every second run tries for the goal itself, as an order either finds it soon or hardly ever. The others
  // try for something between it and what is known, or now and then for a proof on a window.
  Task plan_task(Index index) {
    const Part& part = parts_.list()[index];
    Course& course = courses_[index];
    const auto n = static_cast<std::int64_t>(part.units.size());
    const std::int64_t turn = course.turns++;
    const bool modest = turn % 2 == 1;
    Task task;
    task.part = index;
    task.modest = modest;
    task.turn = modest ? course.modest_turns++ : turn - course.modest_turns;
    task.nodes = std::max(kLeastBudget, 2 * n) * luby(task.turn / 8 + 1);
    task.calm = task.turn < 4;
    task.arena = goal();
    if (course.arena == kNone && !options_.fit) {
      task.arena = part.roof;
    } else if (modest && course.modest_turns % 6 == 0 && can_cut(part, course)) {
      cut_window(part, course, task);
    } else if (modest && !options_.fit) {
      task.arena += static_cast<Bytes>(static_cast<double>(course.arena - 1 - goal()) * (1 - course.step));
      task.calm = course.tries == 0;
    }
    return task;
  }

  bool can_cut(const Part& part, const Course& course) const {
    return options_.rules.has(Rule::kWindows) && part.instance &&
           2 * course.radius + 1 < part.instance->section_count();
  }

  void cut_window(const Part& part, Course& course, Task& task) const {
    const Instance& instance = *part.instance;
    Index peak = 0;
    for (Index s = 1; s < instance.section_count(); ++s) {
      if (instance.section_bytes(s) > instance.section_bytes(peak)) peak = s;
    }
    task.window_begin = std::max<Index>(0, peak - course.radius);
    task.window_end = std::min(instance.section_count(), peak + course.radius + 1);
    task.turn = course.window_turns;
    task.nodes = kLeastBudget * luby(++course.window_turns);
  }

  // Whether nothing that is left to do can change the outcome.
  bool decides(const std::vector<Task>& tasks, const Report& report) const {
    if (report.outcome != Outcome::kFound || report.bases.empty()) return false;
    const auto open = std::count_if(courses_.begin(), courses_.end(),
                                    [&](const Course& c) { return c.arena == kNone || c.arena > goal(); });
    return open == 1 && arena_of(tasks.front().part, report) <= goal();
  }

  Bytes arena_of(Index index, const Report& report) const {
    const Part& part = parts_.list()[index];
    std::vector<Bytes> offset(problem_.count());
    for (std::size_t k = 0; k < part.units.size(); ++k) parts_.put(part.units[k], report.bases[k], offset);
    return parts_.arena_of(part, offset);
  }

  void learn(const Task& task, const Report& report) {
    result_.nodes += report.nodes;
    Course& course = courses_[task.part];
    Part& part = parts_.list()[task.part];
    const bool window = task.window_begin >= 0;
    const bool intermediate = !window && task.arena > goal();
    if (report.outcome == Outcome::kInfeasible) {
      if (!window && course.arena == kNone && task.arena >= part.roof) impossible_ = true;
      const Bytes least = checked_add(task.arena, 1);
      part.bound = std::max(part.bound, part.instance ? part.instance->attainable(least) : least);
      result_.lower_bound = std::max(result_.lower_bound, part.bound);
    } else if (report.outcome == Outcome::kFound && window) {
      course.radius *= 2;
    } else if (report.outcome == Outcome::kFound) {
      const Bytes found = arena_of(task.part, report);
      if (course.arena == kNone || found < course.arena) {
        course.arena = found;
        for (std::size_t k = 0; k < part.units.size(); ++k) {
          parts_.put(part.units[k], report.bases[k], result_.offset);
        }
      }
    }
    if (intermediate) {
      if (report.outcome != Outcome::kStopped) {
        course.step = std::min(kLongestStep, 1.6 * course.step);
        course.tries = 0;
      } else if (++course.tries >= kTries) {
        course.step = course.step < kShortestStep ? kFirstStep : 0.5 * course.step;
        course.tries = 0;
      }
    }
    note();
  }

  SearchResult finish(Stopped why) {
    result_.arena = arena();
    if (result_.arena == kNone) result_.offset.clear();
    if (result_.arena != kNone) result_.lower_bound = std::min(result_.lower_bound, result_.arena);
    result_.stopped = why;
    note();
    return std::move(result_);
  }

  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const Problem& problem_;
  const SearchOptions& options_;
  Parts parts_;
  Crew crew_;
  std::vector<Course> courses_;
  SearchResult result_;
  std::optional<Stopped> why_;
  bool impossible_ = false;
  double reported_ = 0;
};

}  // namespace

SearchResult search(const Problem& problem, const SearchOptions& options) {
  return Search(problem, options).run();
}

}  // namespace lowtide
