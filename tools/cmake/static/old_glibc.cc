// Functions of the C library as those of 2.34 have them; a program that is linked with a newer one
// would ask for that one for their sake. The linker sends calls here (--wrap).
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// As it has been since the first C library of this processor; another since 2.35.
double first_hypot(double x, double y);
__asm__(".symver first_hypot, hypot@GLIBC_2.2.5");
double __wrap_hypot(double x, double y) { return first_hypot(x, y); }

// Since 2.36; std::random_device calls it.
uint32_t __wrap_arc4random() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
}
