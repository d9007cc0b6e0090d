# Writes OUTPUT with one {name, text} for each of FILES, rows of an array in C++.
set(rows "")
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  file(READ ${path} text)
  string(APPEND rows "{\"${name}\", R\"mesh(${text})mesh\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${rows}")
