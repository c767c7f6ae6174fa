// The owning faces of devices and recipes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/comm.h"
#include "core/plugin/device.h"
#include "core/plugin/recipe.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kFixtures = OCTACHORON_BINARY_DIR "/tests/plugins/";
const oct_host kHost{.struct_size = sizeof(oct_host),
                     .user = nullptr,
                     .rank = 0,
                     .size = 1,
                     .local_rank = 0,
                     .local_size = 1,
                     .log = nullptr,
                     .allgather = nullptr};
const oct_device_options kOptions{
    .struct_size = sizeof(oct_device_options), .threads = 1, .dry = 0, .tuning = nullptr};

PluginLibrary fixture(const std::string& name) {
  return {kFixtures + "precision-" + name + ".so", OCT_PRECISION};
}

std::pair<ExitStatus, std::string> refusal(const std::string& plugin, const std::string& options) {
  try {
    Recipe recipe(fixture(plugin), kHost, options);
  } catch (const Error& error) {
    return {error.status(), error.what()};
  }
  return {ExitStatus::done, ""};
}

TEST(Recipe, ExceptionsOfThePluginBecomeErrors) {
  EXPECT_EQ(refusal("sound", "").first, ExitStatus::done);
  auto [status, sentence] = refusal("sound", "bad");
  EXPECT_EQ(status, ExitStatus::usage);
  EXPECT_THAT(sentence, HasSubstr("'bad' is no option"));
  std::tie(status, sentence) = refusal("sound", "broken");
  EXPECT_EQ(status, ExitStatus::internal);
  EXPECT_THAT(sentence, HasSubstr("a bug"));
  std::tie(status, sentence) = refusal("throwing", "");
  EXPECT_EQ(status, ExitStatus::internal) << "what is thrown is no std::exception";
}

TEST(Recipe, SpecKeepsWithinTheCallersStruct) {
  const PluginLibrary library = fixture("sound");
  const auto& table = library.table<oct_precision_table>();
  oct_recipe* recipe = nullptr;
  ASSERT_EQ(table.create(&kHost, "", &recipe), OCT_OK);
  oct_quant_query query{};
  query.struct_size = sizeof query;
  oct_quant_spec spec{};
  spec.struct_size = offsetof(oct_quant_spec, history);  // a program built before `history` was added
  spec.history = 77;
  EXPECT_EQ(table.spec(recipe, &query, &spec), OCT_OK);
  EXPECT_EQ(spec.history, 77);
  EXPECT_EQ(spec.struct_size, offsetof(oct_quant_spec, history));
  table.destroy(recipe);
}

TEST(Device, OwnsItsPartsAndOrdersLanes) {
  Device device(PluginLibrary(kFixtures + "device-thread.so", OCT_DEVICE), kHost, kOptions);
  EXPECT_EQ(device.name(), "thread");
  EXPECT_EQ(device.properties().is_host, 1);
  DeviceMemory a(device, OCT_MEMORY_DEVICE, 16), moved(std::move(a));
  EXPECT_EQ(a.data(), nullptr);
  ASSERT_NE(moved.data(), nullptr);
  EXPECT_EQ(moved.bytes(), 16u);
  DeviceLane first(device, "first", 0), second(device, "second", 0);
  DeviceEvent event(device);
  EXPECT_TRUE(event.past()) << "never recorded";
  const int value = 42;
  int between = 0;
  device.copy(&between, &value, sizeof value, first.handle());
  event.record(first.handle());
  event.wait(second.handle());
  device.copy(moved.data(), &between, sizeof between, second.handle());
  device.synchronize();
  EXPECT_TRUE(event.past());
  EXPECT_EQ(*reinterpret_cast<int*>(moved.data()), 42);
  EXPECT_EQ(device.poll_error(), "");
}

// Slots that are null, and a table that ends before them.
TEST(Device, WithoutSpansStampsBothSides) {
  for (const char* name : {"device-thread.so", "device-hidden.so"}) {
    Device device(PluginLibrary(kFixtures + name, OCT_DEVICE), kHost, kOptions);
    DeviceLane lane(device, "lane", 0);
    double begin = -1, end = -1, before = -1, after = -1;
    device.span_begin(nullptr, "a name", nullptr, nullptr);
    device.stamp(lane.handle(), &before);
    device.span_begin(lane.handle(), "timed", &begin, &end);
    device.span_end(lane.handle(), &end);
    device.stamp(lane.handle(), &after);
    device.span_end(nullptr, nullptr);
    device.synchronize();
    EXPECT_GT(before, 0) << name;
    EXPECT_LE(before, begin) << name;
    EXPECT_LE(begin, end) << name;
    EXPECT_LE(end, after) << name;
  }
}

TEST(Device, RefusalsCarryThePluginsText) {
  Device device(PluginLibrary(kFixtures + "device-thread.so", OCT_DEVICE), kHost, kOptions);
  EXPECT_EQ(device.query({}).supported, 0);
  try {
    device.prepare({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("device plugin 'thread'"), HasSubstr("has no operations")));
  }
}

TEST(Communicator, RefusesADeviceThatThePluginDoesNotWorkWith) {
  Device device(PluginLibrary(kFixtures + "device-thread.so", OCT_DEVICE), kHost, kOptions);
  try {
    Communicator comm(PluginLibrary(kFixtures + "comm-needs-gpu.so", OCT_COMM), kHost, 0, device);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("'needs-gpu'"), HasSubstr("'thread'"), HasSubstr("backend.device = gpu")));
  }
}

}  // namespace
}  // namespace octachoron
