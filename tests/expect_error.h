#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plimsoll/base/error.h"

namespace plimsoll::testing {

/// The message of the Error that `call` throws; fails the test if it throws none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a plimsoll::Error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace plimsoll::testing
