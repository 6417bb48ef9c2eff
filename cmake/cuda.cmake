# The CUDA backend: the module libmpt_cuda.so where there is a toolkit, and the simulator that
# runs the same kernels on the CPU for tests, where there is a C++ compiler.
file(GLOB CUDA_KERNELS CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB CUDA_C CONFIGURE_DEPENDS kernels/cuda/*.c)
# The simulator has its own of what needs the toolkit.
set(CUSIM_C ${CUDA_C})
list(FILTER CUSIM_C EXCLUDE REGEX "/lt\\.c$")

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  file(GLOB CUSIM_SOURCES CONFIGURE_DEPENDS kernels/cuda/sim/*.cpp)
  set(CUSIM_C ${CUDA_C}) # without what only a toolkit has
  list(FILTER CUSIM_C EXCLUDE REGEX "/runtime_cuda\\.c$")
  set_source_files_properties(${CUDA_KERNELS} PROPERTIES LANGUAGE CXX)
  add_library(mpt_cusim STATIC EXCLUDE_FROM_ALL ${CUDA_KERNELS} ${CUSIM_C} ${CUSIM_SOURCES})
  target_compile_options(mpt_cusim PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-xc++ -std=c++17 -Wall
    -Wextra -Werror -ffp-contract=off -fno-strict-aliasing -fno-math-errno -fno-trapping-math>)
  target_include_directories(mpt_cusim PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime
    ${CMAKE_SOURCE_DIR}/runtime/include)
  target_link_libraries(mpt_cusim PUBLIC mpt_core)
endif()
