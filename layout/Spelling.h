#ifndef MESHC_LAYOUT_SPELLING_H
#define MESHC_LAYOUT_SPELLING_H

#include <span>
#include <string>
#include <string_view>

namespace meshc::layout {

/// The candidate nearest to `name` by edit distance, if it is near enough to be
/// a likely misspelling: distance at most max(1, length / 3), where swapping
/// two neighbouring letters counts once; the first of several equally near.
/// Empty otherwise, and for names over 256 letters.
std::string findNearest(std::string_view name,
                        std::span<const std::string> candidates);

/// Whether a name is what the pattern says, in which '*' stands for anything,
/// nothing and "/" included. Linear, but for the place of the last '*'.
bool fitsPattern(std::string_view pattern, std::string_view name);

} // namespace meshc::layout

#endif
