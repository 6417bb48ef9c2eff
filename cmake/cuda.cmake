# The CUDA backend: the module libmpt_cuda.so where there is a toolkit, and the simulator that
# runs the same kernels on the CPU for tests, where there is a C++ compiler.
file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB CUDA_C CONFIGURE_DEPENDS kernels/cuda/*.c)

# ---- the module ----

set(MPT_CUDA AUTO CACHE STRING "Build libmpt_cuda.so: AUTO (where nvcc and cuBLAS are), ON, OFF")
set_property(CACHE MPT_CUDA PROPERTY STRINGS AUTO ON OFF)
# The machine code that is built (kernels/cuda/capability.h says why no other). Each kind of GPU
# takes nvcc minutes.
set(MPT_CUDA_ARCHITECTURES "80-real;90a-real;100a-real" CACHE STRING "GPUs to build it for")
set(CMAKE_CUDA_ARCHITECTURES ${MPT_CUDA_ARCHITECTURES})
# Another toolkit may give registers otherwise: that is no reason not to build there.
option(MPT_CUDA_STRICT "warnings of nvcc and spilled registers are errors" OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")

include(CheckLanguage)
check_language(CXX)
set(MPT_CUDA_LACKS "")
if(MPT_CUDA STREQUAL "OFF")
  set(MPT_CUDA_LACKS "MPT_CUDA is OFF")
elseif(MPT_SANITIZE)
  set(MPT_CUDA_LACKS "the sanitizers do not go into it")
elseif(NOT CMAKE_CXX_COMPILER)
  set(MPT_CUDA_LACKS "there is no C++ compiler, which nvcc needs")
else()
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    # Toolkits are installed beside PATH.
    find_program(MPT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /opt/cuda
      PATH_SUFFIXES bin)
    mark_as_advanced(MPT_NVCC)
    if(MPT_NVCC)
      set(ENV{CUDACXX} ${MPT_NVCC})
    endif()
  endif()
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(MPT_CUDA_LACKS "there is no nvcc that works")
  else()
    enable_language(CUDA)
    find_package(CUDAToolkit 13)
    if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
      set(MPT_CUDA_LACKS "there is no cuBLASLt of CUDA 13 beside nvcc")
    endif()
  endif()
endif()
set(MPT_CUDA_LACKS "${MPT_CUDA_LACKS}" CACHE INTERNAL "why there is no module; empty: there is")
if(MPT_CUDA STREQUAL "ON" AND MPT_CUDA_LACKS)
  message(FATAL_ERROR "MPT_CUDA=ON, but ${MPT_CUDA_LACKS}")
elseif(MPT_CUDA_LACKS)
  message(STATUS "libmpt_cuda.so is not built: ${MPT_CUDA_LACKS}")
else()
  message(STATUS "libmpt_cuda.so is built by ${CMAKE_CUDA_COMPILER}")
  add_subdirectory(kernels/cuda)
endif()

# ---- the simulator ----

option(MPT_CUSIM "build the simulator of CUDA kernels, for tests" ON)
if(CMAKE_CXX_COMPILER AND MPT_CUSIM)
  enable_language(CXX)
  # Its kernels run for small shapes only, and -O3 would take minutes to compile their templates.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
  file(GLOB CUSIM_SOURCES CONFIGURE_DEPENDS kernels/cuda/sim/*.cpp)
  set(CUSIM_C ${CUDA_C}) # without what a toolkit is for: the simulator has its own
  list(FILTER CUSIM_C EXCLUDE REGEX "/(module|runtime_cuda|lt|lt_[a-z_]*)\\.c$")
  set_source_files_properties(${CUDA_KERNELS} PROPERTIES LANGUAGE CXX)
  add_library(mpt_cusim STATIC EXCLUDE_FROM_ALL ${CUDA_KERNELS} ${CUSIM_C} ${CUSIM_SOURCES})
  target_compile_options(mpt_cusim PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-xc++ -std=c++17 -Wall
    -Wextra -Werror -ffp-contract=off -fno-strict-aliasing -fno-math-errno -fno-trapping-math>)
  target_include_directories(mpt_cusim PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime
    ${CMAKE_SOURCE_DIR}/runtime/include)
  # Every kernel reads the same headers, which takes longer than to compile most of them.
  target_precompile_headers(mpt_cusim PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/kernels/cuda/values.h>)
  target_link_libraries(mpt_cusim PUBLIC mpt_core)
  if(MPT_SANITIZE)
    # As for the vectors of the CPU: minutes of compiling. Linked, to stand behind what it undoes.
    add_library(mpt_cusim_flags INTERFACE)
    target_compile_options(mpt_cusim_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=undefined>)
    target_link_libraries(mpt_cusim PRIVATE mpt_cusim_flags)
  endif()
endif()
