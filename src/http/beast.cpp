// Beast's own code, compiled once (BOOST_BEAST_SEPARATE_COMPILATION).
// Without its assertions: parse_chunk_header() asserts that 5 bytes are there where 3 suffice ("0\r\n" first, one byte
// later), so that in a build with assertions any client could end the daemon. What follows reads those 3 bytes alone.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/src.hpp>
