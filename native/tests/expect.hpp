// Expectations for the kernel's own tests: a failure prints its place and ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

#define EXPECT_THROWS(type, statement)   \
  do {                                   \
    bool thrown = false;                 \
    try {                                \
      statement;                         \
    } catch (const type&) {              \
      thrown = true;                     \
    }                                    \
    EXPECT(thrown && "expected " #type); \
  } while (false)
