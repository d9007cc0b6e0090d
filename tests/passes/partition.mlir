// RUN: meshc-opt %s -nd-partition -split-input-file | FileCheck %s

// Blocks have the local shape: sizes divided by the axes, rounded up (7 over 3
// is 3). Elementwise operations run on them as they are, padding included.
// CHECK-LABEL: spmd.program @local_shapes
// CHECK-NEXT:    %[[X:.*]] = spmd.input "x" of !a_at_x_by_b_at_y : tensor<2x3xf32>
// CHECK-NEXT:    %[[W:.*]] = spmd.read @w : tensor<3xf32>
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]] : tensor<2x3xf32>, tensor<3xf32>)
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[AB:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK-NEXT:      linalg.yield %[[AB]]
// CHECK:         spmd.output "y" of !a_at_x_by_b_at_y, %[[Y]] : tensor<2x3xf32>
// CHECK-NEXT:    spmd.write @w, %[[W]] : tensor<3xf32>
nd.mesh ["x"=2, "y"=3]
nd.variable parameter @w : !nd.tensor<["b"=7], f32, <"b"@y>> = #nd.fill<1.0>
nd.program @local_shapes {
  %x = nd.input "x" : !nd.tensor<["a"=4, "b"=7], f32, <"a"@x, "b"@y>>
  %w = nd.read @w : !nd.tensor<["b"=7], f32, <"b"@y>>
  %y = nd.mul %x, %w : (!nd.tensor<["a"=4, "b"=7], f32, <"a"@x, "b"@y>>, !nd.tensor<["b"=7], f32, <"b"@y>>) -> !nd.tensor<["a"=4, "b"=7], f32, <"a"@x, "b"@y>>
  nd.output "y", %y : !nd.tensor<["a"=4, "b"=7], f32, <"a"@x, "b"@y>>
  nd.write @w, %w : !nd.tensor<["b"=7], f32, <"b"@y>>
}

// -----

// A reduction skips the padding of an uneven dimension: the position of an
// element is its position in the block plus where the block begins, here on two
// axes, y of blocks of 3 and x of blocks of 2 within them.
// CHECK-LABEL: spmd.program @padding
// CHECK-NEXT:    %[[X:.*]] = spmd.input "x" of !a_at_y_x_by_b : tensor<2x5xf32>
// CHECK:         %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         %[[INIT:.*]] = linalg.fill ins(%[[LOWEST]]
// CHECK:         %[[Y:.*]] = spmd.axis_index y
// CHECK:         %[[MAJOR:.*]] = arith.muli %[[Y]], %{{c3.*}} : index
// CHECK:         %[[SUBEND:.*]] = arith.addi %[[MAJOR]], %{{c3.*}} : index
// CHECK:         %[[END:.*]] = arith.minsi %{{c7.*}}, %[[SUBEND]]
// CHECK:         %[[XI:.*]] = spmd.axis_index x
// CHECK:         %[[MINOR:.*]] = arith.muli %[[XI]], %{{c2.*}} : index
// CHECK:         %[[BEGIN:.*]] = arith.addi %[[MAJOR]], %[[MINOR]] : index
// CHECK:         %[[MAX:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<2x5xf32>) outs(%[[INIT]]
// CHECK:           %[[I:.*]] = linalg.index
// CHECK:           %[[AT:.*]] = arith.addi %[[I]], %[[BEGIN]]
// CHECK:           %[[IS_INSIDE:.*]] = arith.cmpi slt, %[[AT]], %[[END]]
// CHECK:           %[[IDENTITY:.*]] = arith.constant 0xFF800000 : f32
// CHECK:           arith.select %[[IS_INSIDE]], %{{.*}}, %[[IDENTITY]]
// CHECK:         spmd.output "y" of !b_max_over_x_y, %[[MAX]]
nd.mesh ["x"=2, "y"=3]
nd.program @padding {
  %x = nd.input "x" : !nd.tensor<["a"=7, "b"=5], f32, <"a"@y@x>>
  %s = nd.reduce max %x : (!nd.tensor<["a"=7, "b"=5], f32, <"a"@y@x>>) -> !nd.tensor<["b"=5], f32, <> partial max over (x, y)>
  nd.output "y", %s : !nd.tensor<["b"=5], f32, <> partial max over (x, y)>
}

// -----

// Blocks of one size need no mask.
// CHECK-LABEL: spmd.program @no_padding
// CHECK-NOT:     spmd.axis_index
// CHECK-NOT:     arith.select
// CHECK:         spmd.output
nd.mesh ["x"=2]
nd.program @no_padding {
  %x = nd.input "x" : !nd.tensor<["a"=6], f32, <"a"@x>>
  %s = nd.reduce sum %x : (!nd.tensor<["a"=6], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  nd.output "y", %s : !nd.tensor<[], f32, <> partial sum over x>
}

// -----

// Positions are global.
// CHECK-LABEL: spmd.program @positions
// CHECK:         %[[XI:.*]] = spmd.axis_index x
// CHECK:         %[[BEGIN:.*]] = arith.muli %[[XI]], %{{c3.*}} : index
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<3xi32>)
// CHECK:           %[[I:.*]] = linalg.index 0
// CHECK:           arith.addi %[[I]], %[[BEGIN]]
nd.mesh ["x"=2]
nd.program @positions {
  %i = nd.iota : !nd.tensor<["a"=5], i32, <"a"@x>>
  nd.output "y", %i : !nd.tensor<["a"=5], i32, <"a"@x>>
}

// -----

// What a change of sharding becomes: one collective where one does.
// CHECK-LABEL: spmd.program @collectives
// CHECK-NEXT:    %[[WHOLE:.*]] = spmd.input "whole"
// CHECK-NEXT:    %[[AX:.*]] = spmd.slice %[[WHOLE]] from !a_by_b to !a_at_x_by_b : tensor<6x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    spmd.all_to_all %[[AX]] from !a_at_x_by_b to !a_by_b_at_x : tensor<3x5xf32> -> tensor<6x3xf32>
// CHECK-NEXT:    spmd.all_gather %[[AX]] from !a_at_x_by_b to !a_by_b : tensor<3x5xf32> -> tensor<6x5xf32>
// CHECK-NEXT:    spmd.exchange %[[AX]] from !a_at_x_by_b to !a_at_y_by_b : tensor<3x5xf32> -> tensor<2x5xf32>
// CHECK-NEXT:    %[[AXY:.*]] = spmd.slice %[[AX]] from !a_at_x_by_b to !a_at_x_y_by_b : tensor<3x5xf32> -> tensor<1x5xf32>
// CHECK-NEXT:    spmd.permute %[[AXY]] from !a_at_x_y_by_b to !a_at_y_x_by_b : tensor<1x5xf32> -> tensor<1x5xf32>
nd.mesh ["x"=2, "y"=3]
nd.program @collectives {
  %whole = nd.input "whole" : !nd.tensor<["a"=6, "b"=5], f32, <>>
  %ax = nd.reshard %whole : !nd.tensor<["a"=6, "b"=5], f32, <>> -> !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>>
  %bx = nd.reshard %ax : !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>> -> !nd.tensor<["a"=6, "b"=5], f32, <"b"@x>>
  %again = nd.reshard %ax : !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>> -> !nd.tensor<["a"=6, "b"=5], f32, <>>
  %ay = nd.reshard %ax : !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>> -> !nd.tensor<["a"=6, "b"=5], f32, <"a"@y>>
  %axy = nd.reshard %ax : !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>> -> !nd.tensor<["a"=6, "b"=5], f32, <"a"@x@y>>
  %ayx = nd.reshard %axy : !nd.tensor<["a"=6, "b"=5], f32, <"a"@x@y>> -> !nd.tensor<["a"=6, "b"=5], f32, <"a"@y@x>>
  nd.output "ayx", %ayx : !nd.tensor<["a"=6, "b"=5], f32, <"a"@y@x>>
}

// -----

// Terms: over several axes at once; completed and split in one step; and split
// over another axis before they are completed, so that less is sent.
// CHECK-LABEL: spmd.program @terms
// CHECK:         %[[PX:.*]] = linalg.generic
// CHECK:         spmd.all_reduce %[[PX]] from !b_by_c_sum_over_x to !b_by_c : tensor<6x5xf32> -> tensor<6x5xf32>
// CHECK-NEXT:    spmd.reduce_scatter %[[PX]] from !b_by_c_sum_over_x to !b_at_x_by_c : tensor<6x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    %[[OWN:.*]] = spmd.slice %[[PX]] from !b_by_c_sum_over_x to !b_at_y_by_c_sum_over_x : tensor<6x5xf32> -> tensor<2x5xf32>
// CHECK-NEXT:    spmd.all_reduce %[[OWN]] from !b_at_y_by_c_sum_over_x to !b_at_y_by_c : tensor<2x5xf32> -> tensor<2x5xf32>
// CHECK:         %[[PXY:.*]] = linalg.generic
// CHECK:         spmd.all_reduce %[[PXY]] from !b_by_c_sum_over_x_y to !b_by_c : tensor<6x5xf32> -> tensor<6x5xf32>
// CHECK-NEXT:    spmd.reduce_scatter %[[PXY]] from !b_by_c_sum_over_x_y to !b_at_x_y_by_c : tensor<6x5xf32> -> tensor<1x5xf32>
nd.mesh ["x"=2, "y"=3]
nd.program @terms {
  %x = nd.input "x" : !nd.tensor<["a"=4, "b"=6, "c"=5], f32, <"a"@x>>
  %px = nd.reduce sum %x : (!nd.tensor<["a"=4, "b"=6, "c"=5], f32, <"a"@x>>) -> !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over x>
  %1 = nd.reshard %px : !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over x> -> !nd.tensor<["b"=6, "c"=5], f32, <>>
  %2 = nd.reshard %px : !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over x> -> !nd.tensor<["b"=6, "c"=5], f32, <"b"@x>>
  %3 = nd.reshard %px : !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over x> -> !nd.tensor<["b"=6, "c"=5], f32, <"b"@y>>
  %y = nd.input "y" : !nd.tensor<["a"=12, "b"=6, "c"=5], f32, <"a"@x@y>>
  %pxy = nd.reduce sum %y : (!nd.tensor<["a"=12, "b"=6, "c"=5], f32, <"a"@x@y>>) -> !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over (x, y)>
  %4 = nd.reshard %pxy : !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over (x, y)> -> !nd.tensor<["b"=6, "c"=5], f32, <>>
  %5 = nd.reshard %pxy : !nd.tensor<["b"=6, "c"=5], f32, <> partial sum over (x, y)> -> !nd.tensor<["b"=6, "c"=5], f32, <"b"@x@y>>
}

// -----

// A gather along a split dimension: each device takes what it has, and the sum
// of these is complete.
// CHECK-LABEL: spmd.program @gather
// CHECK:         %[[T:.*]] = spmd.input "t" of !v_at_x_by_c : tensor<3x2xf32>
// CHECK:         %[[XI:.*]] = spmd.axis_index x
// CHECK:         %[[BEGIN:.*]] = arith.muli %[[XI]], %{{c3.*}} : index
// CHECK:         %[[G:.*]] = linalg.generic
// CHECK:           arith.subi %{{.*}}, %[[BEGIN]] : index
// CHECK:         spmd.all_reduce %{{.*}} from !b_by_c_sum_over_x to !b_by_c
nd.mesh ["x"=2]
nd.program @gather {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=2], f32, <"v"@x>>
  %i = nd.input "i" : !nd.tensor<["b"=3], i32, <>>
  %g = nd.gather %t[%i] over "v" : (!nd.tensor<["v"=5, "c"=2], f32, <"v"@x>>, !nd.tensor<["b"=3], i32, <>>) -> !nd.tensor<["b"=3, "c"=2], f32, <> partial sum over x>
  %y = nd.reshard %g : !nd.tensor<["b"=3, "c"=2], f32, <> partial sum over x> -> !nd.tensor<["b"=3, "c"=2], f32, <>>
  nd.output "y", %y : !nd.tensor<["b"=3, "c"=2], f32, <>>
}

// -----

// A put along a split dimension: each device adds up what is in its block. An
// index that is split leaves a partial sum, and what is padding there is nowhere.
// CHECK-DAG:   #[[INPUT:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG:   #[[INDEX:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG:   #[[SUM:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: spmd.program @put
// CHECK:         %[[X:.*]] = spmd.input "x" of !b_at_y_by_c : tensor<2x2xf32>
// CHECK:         %[[I:.*]] = linalg.generic
// CHECK:           arith.subi
// CHECK:           arith.cmpi ult
// CHECK:           arith.cmpi slt
// CHECK:           arith.constant -1 : i32
// CHECK:         %[[P:.*]] = spmd.put %[[X]][%[[I]]] {indexing_maps = [#[[INPUT]], #[[INDEX]], #[[SUM]]]} : tensor<2x2xf32>, tensor<2xi32> -> tensor<3x2xf32>
// CHECK:         spmd.all_reduce %[[P]] from !v_at_x_by_c_sum_over_y to !v_at_x_by_c
nd.mesh ["x"=2, "y"=2]
nd.program @put {
  %x = nd.input "x" : !nd.tensor<["b"=3, "c"=2], f32, <"b"@y>>
  %i = nd.input "i" : !nd.tensor<["b"=3], i32, <"b"@y>>
  %p = nd.put %x[%i] over "v" : (!nd.tensor<["b"=3, "c"=2], f32, <"b"@y>>, !nd.tensor<["b"=3], i32, <"b"@y>>) -> !nd.tensor<["v"=5, "c"=2], f32, <"v"@x> partial sum over y>
  %y = nd.reshard %p : !nd.tensor<["v"=5, "c"=2], f32, <"v"@x> partial sum over y> -> !nd.tensor<["v"=5, "c"=2], f32, <"v"@x>>
  nd.output "y", %y : !nd.tensor<["v"=5, "c"=2], f32, <"v"@x>>
}

// -----

// Where two collectives make one change each carries its causes.
// CHECK-LABEL: spmd.program @causes
// CHECK:         spmd.slice {{.*}} {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">
// CHECK-NEXT:    spmd.all_reduce {{.*}} {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">
nd.mesh ["x"=2, "y"=3]
nd.program @causes {
  %x = nd.input "x" : !nd.tensor<["a"=4, "b"=6], f32, <"a"@x>>
  %p = nd.reduce sum %x : (!nd.tensor<["a"=4, "b"=6], f32, <"a"@x>>) -> !nd.tensor<["b"=6], f32, <> partial sum over x>
  %y = nd.reshard %p {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = []>]} : !nd.tensor<["b"=6], f32, <> partial sum over x> -> !nd.tensor<["b"=6], f32, <"b"@y>>
}

// -----

// A window arrives by an exchange; the view reads of it from where the first
// position of the block reads first.
// CHECK-LABEL: spmd.program @window
// CHECK-NEXT:    %[[X:.*]] = spmd.input
// CHECK-NEXT:    %[[W:.*]] = spmd.exchange %[[X]] from {{.*}} : tensor<3x2xf32> -> tensor<5x2xf32>
// CHECK-NEXT:    spmd.view %[[W]] ["y" = "dy" + "row" - 1] from {{.*}} : tensor<5x2xf32> -> tensor<3x3x2xf32>
nd.mesh ["m"=3]
nd.program @window {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32, <"y"@m>>
  %w = nd.reshard %x : !nd.tensor<["y"=7, "c"=2], f32, <"y"@m>> -> !nd.tensor<["y"=7, "c"=2], f32, <"y" by "row"=7@m + [-1, 1]>>
  %0 = nd.view %w ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7, "c"=2], f32, <"y" by "row"=7@m + [-1, 1]>>) -> !nd.tensor<["row"=7, "dy"=3, "c"=2], f32, <"row"@m>>
  nd.output "o", %0 : !nd.tensor<["row"=7, "dy"=3, "c"=2], f32, <"row"@m>>
}

// -----

// What is stacked along a whole dimension lies one after the other on each device,
// in the order in which the result is stored.
// CHECK-LABEL: spmd.program @stacked
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[Y:.*]] = spmd.input "y"
// CHECK:         %[[TURNED:.*]] = linalg.generic {{.*}} ins(%[[Y]]
// CHECK:         spmd.stack %[[X]], %[[TURNED]] : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2x3xf32>
nd.mesh ["data"=2]
nd.program @stacked {
  %x = nd.input "x" : !nd.tensor<["b"=4, "c"=3], f32, <"b"@data>>
  %y = nd.input "y" : !nd.tensor<["c"=3, "b"=4], f32, <"b"@data>>
  %s = nd.stack %x, %y along "t" : (!nd.tensor<["b"=4, "c"=3], f32, <"b"@data>>, !nd.tensor<["c"=3, "b"=4], f32, <"b"@data>>) -> !nd.tensor<["t"=2, "b"=4, "c"=3], f32, <"b"@data>>
  nd.output "s", %s : !nd.tensor<["t"=2, "b"=4, "c"=3], f32, <"b"@data>>
}
