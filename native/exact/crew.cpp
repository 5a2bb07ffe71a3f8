#include "exact/crew.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace lowtide {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

}  // namespace

Crew::Crew(const Parts& parts, const RuleSet& rules, std::uint64_t seed, int threads) {
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (int w = 0; w < threads; ++w) {
    const std::uint64_t own =
        (seed + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(w) * 0xd1342543de82ef95u;
    workers_.push_back(std::make_unique<Worker>(parts, rules, own));
  }
}

std::vector<Report> Crew::run(const std::vector<Task>& tasks, const std::function<bool()>& poll,
                              const std::function<bool(const Report&)>& decisive) {
  const std::size_t n = tasks.size();
  std::vector<Report> reports(n);
  std::vector<std::atomic<bool>> stop(n);
  std::mutex mutex;
  std::condition_variable finished;
  std::size_t running = n;
  std::exception_ptr failure;
  const auto stop_from = [&](std::size_t w) {
    for (; w < n; ++w) stop[w].store(true, std::memory_order_relaxed);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t w = 0; w < n; ++w) {
      threads.emplace_back([&, w] {
        try {
          reports[w] = workers_[w]->run(tasks[w], stop[w]);
          if (decisive(reports[w])) stop_from(w + 1);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
          stop_from(0);
        }
        const std::lock_guard lock(mutex);
        --running;
        finished.notify_one();
      });
    }
    std::unique_lock lock(mutex);
    while (!finished.wait_for(lock, kPoll, [&] { return running == 0; })) {
      lock.unlock();
      try {
        if (poll()) stop_from(0);
      } catch (...) {
        stop_from(0);
        throw;
      }
      lock.lock();
    }
  }
  if (failure) std::rethrow_exception(failure);
  return reports;
}

}  // namespace lowtide
