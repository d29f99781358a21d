#include "oci/docker_devices.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

std::string request_trouble(std::string_view json) {
  const auto requests = read_device_requests(json);
  return requests ? "" : requests.error().message;
}

TEST(DeviceRequests, AreReadAsTheApiHasThem) {
  const auto requests = read_device_requests(
      R"([{"Driver":"nvidia","Count":-1,"DeviceIDs":null,"Capabilities":[["gpu","compute"],[]],"Options":{"a":"b"}},
          {"Driver":"cdi","DeviceIDs":["headgate.io/share=a","GPU-1"]}, {}])");
  ASSERT_TRUE(requests) << requests.error().message;
  EXPECT_EQ((*requests)[0], (DeviceRequest{.driver = "nvidia",
                                           .count = -1,
                                           .ids = {},
                                           .capabilities = {{"gpu", "compute"}, {}},
                                           .options = {{"a", "b"}}}));
  EXPECT_EQ((*requests)[1].ids, (std::vector<std::string>{"headgate.io/share=a", "GPU-1"}));
  EXPECT_EQ((*requests)[2], DeviceRequest{});
  EXPECT_EQ(request_trouble("null"), "");
  EXPECT_EQ(request_trouble("[]"), "");
}

TEST(DeviceRequests, AreRefusedWithThePlace) {
  EXPECT_EQ(request_trouble("{}"), "DeviceRequests: is no list");
  EXPECT_EQ(request_trouble("["), "DeviceRequests is no JSON");
  EXPECT_EQ(request_trouble("[1]"), "DeviceRequests[0]: is no object");
  EXPECT_EQ(request_trouble(R"([{"Count":1.5}])"), "DeviceRequests[0].Count: is no count of devices");
  EXPECT_EQ(request_trouble(R"([{"Count":1025}])"), "DeviceRequests[0].Count: is no count of devices");
  EXPECT_EQ(request_trouble(R"([{"Count":18446744073709551615}])"), "DeviceRequests[0].Count: is no count of devices");
  EXPECT_EQ(request_trouble(R"([{"Count":99999999999999999999999}])"),
            "DeviceRequests[0].Count: is no count of devices");
  EXPECT_EQ(request_trouble(R"([{"Count":-9223372036854775808}])"), "");
  EXPECT_EQ(request_trouble(R"([{},{"DeviceIDs":["a",""]}])"), "DeviceRequests[1].DeviceIDs[1]: is empty");
  EXPECT_EQ(request_trouble(R"([{"DeviceIDs":["a\nb"]}])"),
            "DeviceRequests[0].DeviceIDs[0]: 'a?b' has control characters");
  EXPECT_EQ(request_trouble(R"([{"DeviceIDs":"0"}])"), "DeviceRequests[0].DeviceIDs: is no list");
  EXPECT_EQ(request_trouble(R"([{"Capabilities":["gpu"]}])"), "DeviceRequests[0].Capabilities[0]: is no list");
  EXPECT_EQ(request_trouble(R"([{"Capabilities":[[1]]}])"), "DeviceRequests[0].Capabilities[0][0]: is no text");
  EXPECT_EQ(request_trouble(R"([{"Options":{"a":1}}])"), "DeviceRequests[0].Options.a: is no text");
  EXPECT_EQ(request_trouble(R"([{"Gpus":1}])"), "DeviceRequests[0].Gpus: is unknown");
  EXPECT_EQ(request_trouble(R"([{"Count":1,"Count":2}])"), "DeviceRequests has the field 'Count' twice");
}

TEST(DeviceRequests, NameDevicesByCountOrByIds) {
  const auto devices = [](std::int64_t count, std::vector<std::string> ids) {
    DeviceRequest request;
    request.count = count, request.ids = std::move(ids);
    const auto found = requested_devices(request);
    return found ? *found : std::vector<std::string>{found.error().message};
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(devices(3, {}), (Names{"0", "1", "2"}));
  EXPECT_EQ(devices(-1, {}), Names{"all"});
  EXPECT_EQ(devices(-7, {}), Names{"all"});
  EXPECT_EQ(devices(0, {}), Names{});
  EXPECT_EQ(devices(0, {"GPU-1", "1:0"}), (Names{"GPU-1", "1:0"}));
  EXPECT_EQ(devices(1, {"0"}), Names{"cannot set both Count and DeviceIDs on device request"});
  EXPECT_EQ(devices(-1, {"0"}), Names{"cannot set both Count and DeviceIDs on device request"});
}

TEST(DeviceRequests, SelectTheFirstListOfKnownCapabilities) {
  const std::vector<std::string> known = {"gpu", "compute"};
  DeviceRequest request;
  EXPECT_EQ(match_capabilities(request, known), nullptr);
  request.capabilities = {{"gpu", "ngx"}, {"compute", "gpu"}, {"gpu"}};
  EXPECT_EQ(match_capabilities(request, known), &request.capabilities[1]);
  request.capabilities = {{}};
  EXPECT_EQ(match_capabilities(request, known), request.capabilities.data())
      << "an empty list is matched, with nothing";
  EXPECT_EQ(match_capabilities(request, {}), request.capabilities.data());
}

}  // namespace
}  // namespace headgate::oci
