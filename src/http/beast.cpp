// Beast's code, compiled once (BOOST_BEAST_SEPARATE_COMPILATION), without its assertions. parse_chunk_header() asserts
// 5 bytes where 3 suffice ("0\r\n" first, one byte later), so any client could abort a daemon built with assertions.
// The code after the assertion reads only those 3 bytes.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/src.hpp>
