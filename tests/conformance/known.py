"""Cases in which meshc does not do what is expected, and what it does instead: they are told
as known, and do not fail unless meshc itself fails."""

KNOWN = {
    "C10-sent": "of x[a = floor(c / 4), b = c % 4] with a and c over one axis, 3 rows on 2 "
                "devices, all of x is gathered, 8 elements for 2",
    "C12-wide": "a window that is as wide as the dim, with zeros on one side, gathers all of it, 8 "
                "elements for 4 or 5",
    "L7-stride": "an exchange for x[a = 2 * new] sends the rows between those that are read, too, "
                 "2 for 1",
}
