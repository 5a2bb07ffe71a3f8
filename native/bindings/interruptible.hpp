// Runs long work in a thread of its own, while the calling thread keeps time and listens for Ctrl-C.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "bindings/bindings.hpp"

namespace lowtide {

class Interruptible {
 public:
  using Clock = std::chrono::steady_clock;

  // Raises `stop` after `seconds`, or when Python is asked to stop; returns when `work` has returned. Must be
  // called with the GIL held; calls `tick` with the GIL held about ten times a second and at the end.
  // Rethrows what `work` or `tick` threw. Returns whether it was interrupted from the keyboard.
  template <class Work, class Tick>
  static bool run(double seconds, std::atomic<bool>& stop, Work&& work, Tick&& tick) {
    std::mutex mutex;
    std::condition_variable finished;
    bool done = false;
    std::exception_ptr error;
    std::thread worker([&] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      finished.notify_all();
    });

    const Clock::time_point begin = Clock::now();
    bool interrupted = false;
    std::exception_ptr tick_error;
    for (bool last = false; !last;) {
      {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        const double left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
        if (left <= 0) stop = true;
        const double wait = stop ? 0.1 : std::min(left, 0.1);
        last = finished.wait_for(lock, std::chrono::duration<double>(wait), [&] { return done; });
      }
      try {
        if (PyErr_CheckSignals() != 0) {
          if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) throw nb::python_error();
          PyErr_Clear();
          interrupted = true;
          stop = true;
        }
        if (!tick_error) tick();
      } catch (const nb::python_error& raised) {
        if (raised.matches(PyExc_KeyboardInterrupt)) {
          interrupted = true;
        } else {
          tick_error = std::current_exception();
        }
        stop = true;
      } catch (...) {
        tick_error = std::current_exception();
        stop = true;
      }
    }
    worker.join();
    if (error) std::rethrow_exception(error);
    if (tick_error) std::rethrow_exception(tick_error);
    return interrupted;
  }
};

}  // namespace lowtide
