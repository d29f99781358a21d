#include "apps/headgated/check.hpp"

#include <cstdio>

#include "apps/headgated/job_writer.hpp"
#include "apps/headgated/metrics_file.hpp"
#include "cli/devices.hpp"
#include "nvml/library.hpp"
#include "observe/gpus.hpp"

namespace headgate::daemon {

Result<std::optional<Address>> tcp_address(const config::Config& config, const Options& options, bool has_token) {
  if (!options.listen.empty()) return TRY(address_of("--listen", options.listen, has_token));
  const config::Setting& listen = config["node.listen"];
  if (listen.value.empty()) return std::nullopt;
  return TRY(address_of(listen.origin + ": node.listen =", listen.value, has_token));
}

Result<void> is_sound(const config::Config& config, const Options& options) {
  const auto secret = TRY(token(config));
  TRY(tcp_address(config, options, secret.has_value()));
  TRY(MetricsFile::wish_of(config));
  TRY(JobWriter::directory_of(config));
  TRY(control_group(config));
  return {};
}

Result<void> check(const Options& options) {
  const config::Config config = TRY(read_configuration(options));
  if (auto sound = is_sound(config, options); !sound || options.simulate) return sound;
  // Where no driver answers, a start says so; what depends on the cards is not asked here.
  const std::string& named = config["node.nvml"].value;
  const auto driver = nvml::Library::open(named.empty() ? cli::Source{}.library : named);
  const auto picture = driver ? observe::read_driver(*driver, 0) : std::unexpected(driver.error());
  if (!picture) return {};
  for (const auto& card : unsellable(config, picture->gpus)) std::fprintf(stderr, "headgated: %s\n", card.text.c_str());
  return {};
}

}  // namespace headgate::daemon
