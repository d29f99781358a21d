#include "daemon/options.hpp"

#include <getopt.h>

#include <array>

namespace headgate::daemon {
namespace {

constexpr const char* kAccepted =
    "--sim[=PROFILE], --config FILE, --socket PATH, --state DIR, --listen ADDR:PORT, "
    "--zeusd-socket PATH, --cdi-dir DIR, --check";

}  // namespace

const char* usage_text() {
  return "Usage: headgated [OPTIONS]\n"
         "The node's daemon: keeps shares of its NVIDIA GPUs, watches what uses them, answers over HTTP.\n\n"
         "  --sim[=PROFILE]     a simulated node instead of the machine's GPUs (h200, h200-cuda13, h200-r615, "
         "l40s-x2, tiny, FILE.toml)\n"
         "  --config FILE       instead of /etc/headgate/config.toml\n"
         "  --socket PATH       the control socket, instead of control/headgate.sock in the runtime directory\n"
         "  --state DIR         directory for data that must survive a reboot; root's: /var/lib/headgate\n"
         "  --listen ADDR:PORT  HTTP over TCP too; off unless asked for. Elsewhere than on a loopback address only\n"
         "                      with a token file (node.token_file)\n"
         "  --zeusd-socket PATH where the API of zeusd answers: power, clocks and energy (zeusd.socket)\n"
         "  --cdi-dir DIR       where engines find shares (podman run --device headgate.io/share=NAME), or none; "
         "root's:\n"
         "                      /var/run/cdi (cdi.dir)\n"
         "  --check             check whether it would start here with this configuration, and exit\n"
         "  --help, --version\n\n"
         "SIGHUP reads the configuration again, SIGTERM ends the daemon; programs in shares run on under their "
         "limits.\n";
}

Result<Options> parse(int argc, char** argv) {
  const std::array<option, 11> known = {{{"sim", optional_argument, nullptr, 's'},
                                         {"config", required_argument, nullptr, 'c'},
                                         {"socket", required_argument, nullptr, 'p'},
                                         {"state", required_argument, nullptr, 'd'},
                                         {"listen", required_argument, nullptr, 'l'},
                                         {"zeusd-socket", required_argument, nullptr, 'z'},
                                         {"cdi-dir", required_argument, nullptr, 'i'},
                                         {"check", no_argument, nullptr, 'k'},
                                         {"help", no_argument, nullptr, 'h'},
                                         {"version", no_argument, nullptr, 'v'},
                                         {nullptr, 0, nullptr, 0}}};
  Options options;
  ::opterr = 0;  // we report errors ourselves
  ::optind = 1;
  for (;;) {
    const int at = ::optind;
    const int word = ::getopt_long(argc, argv, ":", known.data(), nullptr);
    if (word == -1) break;
    const std::string value = ::optarg != nullptr ? ::optarg : "";
    switch (word) {
      case 's': options.simulate = value; break;
      case 'c': options.config_path = value; break;
      case 'p': options.socket = value; break;
      case 'd': options.state = value; break;
      case 'l': options.listen = value; break;
      case 'z': options.zeusd_socket = value; break;
      case 'i': options.cdi_dir = value; break;
      case 'k': options.check = true; break;
      case 'h': options.help = true; break;
      case 'v': options.version = true; break;
      case ':':
        return fail(ErrorCode::usage, std::string(argv[at]) + " needs a value", std::string("accepted: ") + kAccepted);
      default:
        return fail(ErrorCode::usage, std::string("headgated has no option '") + argv[at] + "'",
                    std::string("accepted: ") + kAccepted);
    }
  }
  if (::optind < argc)
    return fail(ErrorCode::usage, std::string("headgated takes no word '") + argv[::optind] + "'",
                std::string("accepted: ") + kAccepted);
  return options;
}

}  // namespace headgate::daemon
