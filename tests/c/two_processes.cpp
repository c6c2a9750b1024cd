// The client of two_processes.h in C++.
#include "two_processes.h"
