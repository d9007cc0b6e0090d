// Nothing but the headers that the tests share, which are compiled before it.
