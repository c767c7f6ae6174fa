/* A libcuda without a GPU: modules can be loaded, nothing else works. With it cuDNN builds execution plans
   for a GPU that is described to it. These are the functions that cuDNN 9 and the runtime look for. */
enum { kSuccess = 0, kStubLibrary = 34 };
static char thing;

#define LOADS(name)      \
  int name(void** out) { \
    *out = &thing;       \
    return kSuccess;     \
  }
#define SUCCEEDS(name) \
  int name(void) {     \
    return kSuccess;   \
  }
#define FAILS(name)      \
  int name(void) {       \
    return kStubLibrary; \
  }

LOADS(cuLibraryLoadData)
LOADS(cuLibraryGetKernel)
LOADS(cuModuleLoadData)
LOADS(cuModuleLoadDataEx)
LOADS(cuModuleLoadFatBinary)
LOADS(cuModuleGetFunction)
LOADS(cuKernelGetFunction)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelSetAttribute)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetDevice)
FAILS(cuCtxGetLimit)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetAttribute)
FAILS(cuDeviceGetCount)
FAILS(cuDevicePrimaryCtxRelease)
FAILS(cuDevicePrimaryCtxReset)
FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuDriverGetVersion)
FAILS(cuFuncGetAttribute)
FAILS(cuGetErrorName)
FAILS(cuGetErrorString)
FAILS(cuInit)
FAILS(cuKernelGetAttribute)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLibraryLoadFromFile)
FAILS(cuLinkAddData)
FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2)
FAILS(cuLinkComplete)
FAILS(cuLinkCreate)
FAILS(cuLinkCreate_v2)
FAILS(cuLinkDestroy)
FAILS(cuMemcpyDtoH_v2)
FAILS(cuModuleGetGlobal_v2)
FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuStreamGetCtx)
FAILS(cuStreamSynchronize)
FAILS(cuTensorMapEncodeTiled)
