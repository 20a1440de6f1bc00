#include "plimsoll/text/unicode.h"

#include <gtest/gtest.h>
