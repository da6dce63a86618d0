// What dmclock takes of Boost, for machines without it: a variant and `get`.
#pragma once
#include <variant>

namespace boost {
template <typename... T>
using variant = std::variant<T...>;

template <typename T, typename... U>
T& get(std::variant<U...>& of) { return std::get<T>(of); }

template <typename T, typename... U>
const T& get(const std::variant<U...>& of) { return std::get<T>(of); }

template <typename T, typename... U>
const T* get(const std::variant<U...>* of) { return std::get_if<T>(of); }
}
