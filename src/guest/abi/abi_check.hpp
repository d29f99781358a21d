// How the checks beside this compare our declarations with the real headers. For *_abi_check.cpp only.
#pragma once

#include <cstddef>
#include <type_traits>

namespace headgate::abi {}
namespace ours = headgate::abi;

namespace {

// Parameters are compatible if they are passed alike: same size, both pointers or neither, both floating or neither.
template <typename Real, typename Ours>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Real> || std::is_pointer_v<Ours>) {
    if constexpr (!(std::is_pointer_v<Real> && std::is_pointer_v<Ours>)) return false;
    else {
      using A = std::remove_pointer_t<Real>;
      using B = std::remove_pointer_t<Ours>;
      if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) return std::is_pointer_v<A> && std::is_pointer_v<B>;
      else return true;
    }
  } else {
    return sizeof(Real) == sizeof(Ours) && std::is_floating_point_v<Real> == std::is_floating_point_v<Ours> &&
           std::is_class_v<Real> == std::is_class_v<Ours>;
  }
}

template <typename Real, typename Ours>
struct Compare : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct Compare<R(A...), S(B...)> : std::bool_constant<alike<R, S>() && (alike<A, B>() && ...)> {};

}  // namespace

#define SAME_VALUE(name) static_assert(static_cast<long long>(::name) == static_cast<long long>(ours::name))
#define SAME_SIZE(name) static_assert(sizeof(::name) == sizeof(ours::name) && alignof(::name) == alignof(ours::name))
#define SAME_PLACE(name, member) static_assert(offsetof(::name, member) == offsetof(ours::name, member))
