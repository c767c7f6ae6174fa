// Types, errors and refusals of comm nccl, as pure functions.
#include <gmock/gmock.h>

#include <cstdio>

#include "plugins/comm/nccl/mapping.h"

namespace octachoron::nccl {
namespace {

using testing::HasSubstr;

TEST(NcclMapping, TypesKeepTheirSizeAndFp8TravelsAsBytes) {
  EXPECT_EQ(type_of(OCT_F32), ncclFloat32);
  EXPECT_EQ(type_of(OCT_F64), ncclFloat64);
  EXPECT_EQ(type_of(OCT_BF16), ncclBfloat16);
  EXPECT_EQ(type_of(OCT_F16), ncclFloat16);
  EXPECT_EQ(type_of(OCT_I32), ncclInt32);
  EXPECT_EQ(type_of(OCT_U32), ncclUint32);
  EXPECT_EQ(type_of(OCT_U64), ncclUint64);
  for (int bytes : {OCT_E4M3, OCT_E5M2, OCT_E8M0, OCT_U8}) EXPECT_EQ(type_of(bytes), ncclUint8);
}

TEST(NcclMapping, BytesAreNeverReduced) {
  for (int type : {OCT_F32, OCT_F64, OCT_BF16, OCT_F16, OCT_I32, OCT_U32, OCT_U64})
    for (int reduction : {OCT_SUM, OCT_MAX}) EXPECT_TRUE(can_reduce(type, reduction)) << type;
  for (int type : {OCT_E4M3, OCT_E5M2, OCT_E8M0, OCT_U8})
    for (int reduction : {OCT_SUM, OCT_MAX}) EXPECT_FALSE(can_reduce(type, reduction)) << type;
  EXPECT_FALSE(can_reduce(OCT_F32, 2)) << "no such reduction";
  EXPECT_EQ(reduction_of(OCT_SUM), ncclSum);
  EXPECT_EQ(reduction_of(OCT_MAX), ncclMax);
}

TEST(NcclMapping, ErrorsSayWhoseFaultItIs) {
  EXPECT_EQ(status_of(ncclSuccess), OCT_OK);
  EXPECT_EQ(status_of(ncclUnhandledCudaError), OCT_DEVICE_ERROR);
  EXPECT_EQ(status_of(ncclSystemError), OCT_COMM_ERROR);
  EXPECT_EQ(status_of(ncclRemoteError), OCT_COMM_ERROR);
  EXPECT_EQ(status_of(ncclInternalError), OCT_COMM_ERROR);
  EXPECT_EQ(status_of(ncclInvalidArgument), OCT_INTERNAL);
  EXPECT_EQ(status_of(ncclInvalidUsage), OCT_INTERNAL);
}

std::vector<Card> cards(int n) {
  std::vector<Card> all(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) all[std::size_t(i)].gpu[15] = char(i);
  return all;
}

TEST(NcclMapping, OneGpuForEachRankMayBegin) {
  EXPECT_EQ(objection(cards(1)), "");
  EXPECT_EQ(objection(cards(4)), "");
}

TEST(NcclMapping, TwoRanksOnOneGpuAreRefusedWithWhatToDo) {  // faults H06
  std::vector<Card> all = cards(4);
  all[3].gpu = all[1].gpu;
  EXPECT_THAT(objection(all), testing::AllOf(HasSubstr("ranks 1 and 3 use one GPU"),
                                             HasSubstr("GPU-00000000-0000-0000-0000-000000000001"),
                                             HasSubstr("backend.comm = mpi")));
}

TEST(NcclMapping, ARankWithoutAGpuIsNamedFirst) {
  std::vector<Card> all = cards(3);
  all[2].gpu = all[0].gpu;
  std::snprintf(all[2].problem, sizeof all[2].problem, "none is visible");
  EXPECT_EQ(objection(all), "rank 2 cannot use NCCL: none is visible");
}

}  // namespace
}  // namespace octachoron::nccl
