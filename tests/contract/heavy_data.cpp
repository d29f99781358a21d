// A library with more initialized data than a guest library may have. contract_check must report it.
extern "C" {
__attribute__((visibility("default"), used)) char headgate_heavy[(128 << 10) + 1] = {1};
}
