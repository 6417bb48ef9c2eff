# The CUDA backend: the module libmpt_cuda.so where there is a toolkit, and the simulator that
# runs the same kernels on the CPU for tests, where there is a C++ compiler.
file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB CUDA_C CONFIGURE_DEPENDS kernels/cuda/*.c)

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(CMAKE_CXX_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
  file(GLOB CUSIM_SOURCES CONFIGURE_DEPENDS kernels/cuda/sim/*.cpp)
  set_source_files_properties(${CUDA_KERNELS} PROPERTIES LANGUAGE CXX)
  add_library(mpt_cusim STATIC EXCLUDE_FROM_ALL ${CUDA_KERNELS} ${CUDA_C} ${CUSIM_SOURCES})
  target_compile_options(mpt_cusim PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-xc++ -std=c++17 -Wall
    -Wextra -Werror -ffp-contract=off -fno-strict-aliasing -fno-math-errno -fno-trapping-math>)
  target_include_directories(mpt_cusim PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime
    ${CMAKE_SOURCE_DIR}/runtime/include)
  target_link_libraries(mpt_cusim PUBLIC mpt_core)
endif()
