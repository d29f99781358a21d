#include "daemon/check.hpp"

#include <cstdio>

#include "daemon/cdi_files.hpp"
#include "daemon/job_writer.hpp"
#include "daemon/metrics_file.hpp"
#include "daemon/places.hpp"
#include "daemon/power_settings.hpp"
#include "daemon/zeusd_listener.hpp"
#include "install/source.hpp"
#include "nvml/library.hpp"
#include "observe/gpus.hpp"

namespace headgate::daemon {

Result<std::optional<config::ListenAddress>> tcp_address(const config::Config& config, const Options& options,
                                                         bool has_token) {
  if (!options.listen.empty()) return TRY(listen_address_from("--listen", options.listen, has_token));
  const config::Setting& listen = config["node.listen"];
  if (listen.value.empty()) return std::nullopt;
  return TRY(listen_address_from(listen.origin + ": node.listen =", listen.value, has_token));
}

Result<void> is_sound(const config::Config& config, const Options& options) {
  const auto secret = TRY(token(config));
  TRY(tcp_address(config, options, secret.has_value()));
  TRY(MetricsFile::wish_of(config));
  TRY(JobWriter::directory_of(config));
  TRY(CdiFiles::directory_of(config, options));
  TRY(control_group(config));
  TRY(check_power_settings(config));
  return ZeusdListener::check(config);
}

std::string library_of(const config::Config& config) {
  const std::string& named = config["node.nvml"].value;
  return named.empty() ? install::Source{}.library : named;
}

Result<void> check(const Options& options) {
  const config::Config config = TRY(read_configuration(options));
  TRY(is_sound(config, options));
  TRY(check_places(options.socket, options.state));
  TRY(install::check_source(options.simulate, config["sim.profile"].value));
  if (options.simulate) return {};
  const auto driver = TRY(nvml::Library::open(library_of(config)));
  TRY(can_see_programs(config, driver.path()));
  const auto snapshot = TRY(observe::read_driver(driver, 0));
  for (const auto& card : unsellable(config, snapshot.gpus)) std::fprintf(stderr, "headgated: %s\n", card.text.c_str());
  return {};
}

}  // namespace headgate::daemon
