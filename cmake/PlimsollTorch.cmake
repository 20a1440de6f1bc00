# libtorch as an imported target of our own: find_package(Torch) asks for a vendor's compiler when
# the wheel was built with one. TORCH_DIR is the torch package folder (the one that holds include/
# and lib/); without it the python3 on the path is asked where its torch is.
set(PLIMSOLL_TORCH_VERSION 2.13.0)

if(NOT TORCH_DIR AND DEFINED ENV{TORCH_DIR})
  set(TORCH_DIR $ENV{TORCH_DIR})
endif()
if(NOT TORCH_DIR)
  find_program(PLIMSOLL_PYTHON NAMES python3 python)
  if(PLIMSOLL_PYTHON)
    execute_process(
      COMMAND ${PLIMSOLL_PYTHON} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT TORCH_DIR OR NOT EXISTS ${TORCH_DIR}/version.py)
  message(FATAL_ERROR "torch not found. Run tools/bootstrap, or pass -DTORCH_DIR=<folder of the torch package>.")
endif()
set(TORCH_DIR ${TORCH_DIR} CACHE PATH "Folder of the torch package" FORCE)
file(STRINGS ${TORCH_DIR}/version.py version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${version_line}")
message(STATUS "torch ${TORCH_VERSION} at ${TORCH_DIR}")
if(NOT TORCH_VERSION VERSION_EQUAL PLIMSOLL_TORCH_VERSION AND NOT PLIMSOLL_UNTESTED_TORCH)
  message(FATAL_ERROR "Found torch ${TORCH_VERSION}, tested is ${PLIMSOLL_TORCH_VERSION}. "
                      "Install that one (tools/bootstrap), or pass -DPLIMSOLL_UNTESTED_TORCH=ON to try yours.")
endif()
if(NOT EXISTS ${TORCH_DIR}/include/torch/csrc/autograd/engine.h)
  message(FATAL_ERROR "${TORCH_DIR} has no C++ headers (torch/csrc/autograd/engine.h is missing).")
endif()

add_library(plimsoll_torch INTERFACE)
target_include_directories(plimsoll_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${TORCH_DIR}/include> $<BUILD_INTERFACE:${TORCH_DIR}/include/torch/csrc/api/include>)
foreach(lib torch torch_cpu c10)
  target_link_libraries(plimsoll_torch INTERFACE $<BUILD_INTERFACE:${TORCH_DIR}/lib/lib${lib}.so>)
endforeach()
target_link_libraries(plimsoll_torch INTERFACE Threads::Threads)
# torch's include folder brings a newer fmt, whose compiled half it does not export; its inline
# namespace keeps it apart from the distribution's, which the torch-free parts link.
target_compile_definitions(plimsoll_torch INTERFACE FMT_HEADER_ONLY=1)
# The registration code of libtorch_cpu runs at load; nothing refers to it by symbol.
target_link_options(plimsoll_torch INTERFACE "LINKER:--no-as-needed")
list(APPEND CMAKE_BUILD_RPATH ${TORCH_DIR}/lib)
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/../lib" ${TORCH_DIR}/lib)

# at::parallel_for is a template over OpenMP: files that call it are compiled with -fopenmp and link
# the runtime that torch brings, since a second one would have threads of its own.
add_library(plimsoll_torch_openmp INTERFACE)
file(GLOB torch_openmp ${TORCH_DIR}/lib/libgomp*.so* ${TORCH_DIR}/../torch.libs/libgomp*.so*)
if(torch_openmp)
  list(GET torch_openmp 0 torch_openmp)
  target_link_libraries(plimsoll_torch_openmp INTERFACE ${torch_openmp})
endif()

# plimsoll_parallel(FOLDER a.cpp ...): these sources of the folder call at::parallel_for.
function(plimsoll_parallel folder)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-fopenmp")
  target_link_libraries(plimsoll_${folder} PUBLIC $<BUILD_INTERFACE:plimsoll_torch_openmp>)
endfunction()
