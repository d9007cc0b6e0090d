// Every operation is printed as it is parsed, in its own form and the generic one.
// RUN: meshc-opt %s | meshc-opt | FileCheck %s
// RUN: meshc-opt %s -mlir-print-op-generic | meshc-opt | FileCheck %s

!s = !nd.tensor<[], f32>
!a = !nd.tensor<["a"=2], f32>
!b = !nd.tensor<["b"=3], f32>
!ab = !nd.tensor<["a"=2, "b"=3], f32>

// CHECK:      nd.mesh ["x"=2, "y"=3] device_order [5, 4, 3, 2, 1, 0] machine "h100"
// CHECK-NEXT: nd.dim "a" = 2
// CHECK-NEXT: nd.rule "a -> (y, x)"
// CHECK-NEXT: nd.rule "(b, c) -> () unless a"
// CHECK-NEXT: nd.rule "params: * -> x"
// CHECK-NEXT: nd.rule "gradients: a -> ()"
// CHECK-NEXT: nd.rule "state: b -> y unless (a, c)"
// CHECK-NEXT: nd.rule "\22layer/h\22: a -> ()"
// CHECK-NEXT: nd.precision fp16 {growth_steps = 100 : i64, scale = 8.000000e+00 : f64}
nd.mesh ["x"=2, "y"=3] device_order [5, 4, 3, 2, 1, 0] machine "h100"
nd.dim "a" = 2
nd.rule "a -> (y, x)"
nd.rule "(b, c) -> () unless a"
nd.rule "params: * -> x"
nd.rule "gradients: a -> ()"
nd.rule "state: b -> y unless (a, c)"
nd.rule "\22layer/h\22: a -> ()"
nd.precision fp16 {scale = 8.0 : f64, growth_steps = 100 : i64}

// CHECK-NEXT: nd.variable parameter @w : !a = #nd.fill<1.500000e+00 : f64>
// CHECK-NEXT: nd.variable parameter @normal : !a = #nd.random<normal, 0.000000e+00 : f64, 5.000000e-01 : f64>
// CHECK-NEXT: nd.variable parameter @"block/uniform" : !a = #nd.random<uniform, -1.000000e+00 : f64, 1.000000e+00 : f64>
// CHECK-NEXT: nd.variable state @count : !scalar_i64 = #nd.fill<7.000000e+00 : f64>
// CHECK-NEXT: nd.variable in_step @"gradient of w" : !a = #nd.fill<0.000000e+00 : f64>
// CHECK-NEXT: nd.data "x" over "a" = "idx"("train.gz", "test.gz")
// CHECK-NEXT: nd.data "t" over "a" = "text"("a.txt", "") stride 7 units "chars"
// CHECK-NEXT: nd.data "r" over "a" = "rows"("a.csv", "b.csv") columns ["u", "v"]
// CHECK-NEXT: nd.training minimize "loss" by "sgd" epochs 5 steps 0 {rates = [#nd.rate<"sgd/lr" at [1, 10] = [1.000000e+00, 5.000000e-01]>]}
// CHECK-NEXT: nd.objective minimize "loss"
// CHECK-NEXT: nd.setting "lr" = "0.5"
// CHECK-NEXT: nd.setting "layers" = "lr 2 *" fixed
// CHECK-NEXT: nd.requirement "lr 0 >="
nd.variable parameter @w : !a = #nd.fill<1.5>
nd.variable parameter @normal : !a = #nd.random<normal, 0.0, 0.5>
nd.variable parameter @"block/uniform" : !a = #nd.random<uniform, -1.0, 1.0>
nd.variable state @count : !nd.tensor<[], i64> = #nd.fill<7.0>
nd.variable in_step @"gradient of w" : !a = #nd.fill<0.0>
nd.data "x" over "a" = "idx"("train.gz", "test.gz")
nd.data "t" over "a" = "text"("a.txt", "") stride 7 units "chars"
nd.data "r" over "a" = "rows"("a.csv", "b.csv") columns ["u", "v"]
nd.training minimize "loss" by "sgd" epochs 5 steps 0 {rates = [#nd.rate<"sgd/lr" at [1, 10] = [1.0, 0.5]>]}
nd.objective minimize "loss"
nd.setting "lr" = "0.5"
nd.setting "layers" = "lr 2 *" fixed
nd.requirement "lr 0 >="

// CHECK-LABEL: nd.program @border attributes {note = "kept"} {
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !a
// CHECK-NEXT:    %[[I:.*]] = nd.input "i" {index_bound = 10 : i64} : !a_i32
// CHECK-NEXT:    %[[W:.*]] = nd.read @w : !a
// CHECK-NEXT:    %[[U:.*]] = nd.read @"block/uniform" : !a
// CHECK-NEXT:    nd.output "x", %[[X]] : !a
// CHECK-NEXT:    nd.write @w, %[[U]] : !a
nd.program @border attributes {note = "kept"} {
  %x = nd.input "x" : !a
  %i = nd.input "i" {index_bound = 10 : i64} : !nd.tensor<["a"=2], i32>
  %w = nd.read @w : !a
  %u = nd.read @"block/uniform" : !a
  nd.output "x", %x : !a
  nd.write @w, %u : !a
}

// CHECK-LABEL: nd.program @update
// CHECK-NEXT:    nd.gradient @w : !a
nd.program @update {
  %g = nd.gradient @w : !a
}

// CHECK-LABEL: nd.program @sources
// CHECK-NEXT:    nd.constant(1.000000e+00 : f32) : !a_by_b
// CHECK-NEXT:    nd.constant(-3 : i32) : !scalar_i32
// CHECK-NEXT:    nd.constant(true) : !scalar_i1
// CHECK-NEXT:    nd.constant(0x7FC00000 : f32) : !scalar
// CHECK-NEXT:    nd.iota : !a_i32
// CHECK-NEXT:    %[[SEED:.*]] = nd.input "seed" : !scalar_i64
// CHECK-NEXT:    nd.random normal(0.000000e+00, 5.000000e-01) key -7 seed %[[SEED]] : (!scalar_i64) -> !a
// CHECK-NEXT:    nd.random uniform(-1.000000e+00, 1.000000e+00) key 8 seed %[[SEED]] : (!scalar_i64) -> !a_f64
// CHECK-NEXT:    %[[LONG:.*]] = nd.cast %{{.*}} : (!a_i32) -> !a_i64
// CHECK-NEXT:    %[[SEEDS:.*]] = nd.fold_in %[[SEED]], %[[LONG]] : (!scalar_i64, !a_i64) -> !a_i64
// CHECK-NEXT:    nd.random truncated_normal(0.000000e+00, 1.000000e+00) key 9 seed %[[SEEDS]] order ["c", "b"] : (!a_i64) -> !a_by_b_by_c
// CHECK-NEXT:    %[[PART:.*]] = nd.input "part of the step" : !scalar_i32
// CHECK-NEXT:    nd.random uniform(0.000000e+00, 1.000000e+00) key 9 seed %[[SEED]] part %[[PART]] of 4 along ["a"] order ["a"] : (!scalar_i64, !scalar_i32) -> !a
nd.program @sources {
  %one = nd.constant(1.0 : f32) : !ab
  %three = nd.constant(-3 : i32) : !nd.tensor<[], i32>
  %true = nd.constant(true) : !nd.tensor<[], i1>
  %nan = nd.constant(0x7FC00000 : f32) : !s
  %i = nd.iota : !nd.tensor<["a"=2], i32>
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  %n = nd.random normal(0.0, 0.5) key -7 seed %seed : (!nd.tensor<[], i64>) -> !a
  %u = nd.random uniform(-1.0, 1.0) key 8 seed %seed : (!nd.tensor<[], i64>) -> !nd.tensor<["a"=2], f64>
  %l = nd.cast %i : (!nd.tensor<["a"=2], i32>) -> !nd.tensor<["a"=2], i64>
  %seeds = nd.fold_in %seed, %l : (!nd.tensor<[], i64>, !nd.tensor<["a"=2], i64>) -> !nd.tensor<["a"=2], i64>
  %t = nd.random truncated_normal(0.0, 1.0) key 9 seed %seeds order ["c", "b"] : (!nd.tensor<["a"=2], i64>) -> !nd.tensor<["a"=2, "b"=3, "c"=5], f32>
  %part = nd.input "part of the step" : !nd.tensor<[], i32>
  %12 = nd.random uniform(0.0, 1.0) key 9 seed %seed part %part of 4 along ["a"] order ["a"] : (!nd.tensor<[], i64>, !nd.tensor<[], i32>) -> !a
}

// CHECK-LABEL: nd.program @dimensions
// CHECK:         nd.einsum %[[AB:.*]], %[[A:.*]], %[[B:.*]] : (!a_by_b, !a, !b) -> !scalar
// CHECK-NEXT:    nd.reduce sum %[[AB]] : (!a_by_b) -> !a
// CHECK-NEXT:    nd.reduce max %[[AB]] : (!a_by_b) -> !b
// CHECK-NEXT:    nd.reduce min %[[AB]] : (!a_by_b) -> !scalar
// CHECK-NEXT:    nd.reduce mean %[[AB]] : (!a_by_b) -> !a
// CHECK-NEXT:    nd.arg_reduce max %[[AB]] over "b" : (!a_by_b) -> !a_i32
// CHECK-NEXT:    nd.arg_reduce min %[[A]] over "a" : (!a) -> !scalar_i32
// CHECK-NEXT:    nd.broadcast %[[A]] : (!a) -> !b_by_a
// CHECK-NEXT:    nd.rename %[[AB]] "a" -> "c" : (!a_by_b) -> !c_by_b
// CHECK-NEXT:    nd.rename %[[AB]] "a" -> "c", "b" -> "a" : (!a_by_b) -> !c_by_a
// CHECK-NEXT:    nd.gather %[[AB]][%[[I:.*]]] over "b" : (!a_by_b, !c_i32) -> !a_by_c
// CHECK:         nd.put %[[AB]][%{{.*}}] over "d" : (!a_by_b, !b_i32) -> !d_by_a
nd.program @dimensions {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %ab = nd.input "ab" : !ab
  %i = nd.input "i" : !nd.tensor<["c"=5], i32>
  %0 = nd.einsum %ab, %a, %b : (!ab, !a, !b) -> !s
  %1 = nd.reduce sum %ab : (!ab) -> !a
  %2 = nd.reduce max %ab : (!ab) -> !b
  %3 = nd.reduce min %ab : (!ab) -> !s
  %4 = nd.reduce mean %ab : (!ab) -> !a
  %5 = nd.arg_reduce max %ab over "b" : (!ab) -> !nd.tensor<["a"=2], i32>
  %6 = nd.arg_reduce min %a over "a" : (!a) -> !nd.tensor<[], i32>
  %7 = nd.broadcast %a : (!a) -> !nd.tensor<["b"=3, "a"=2], f32>
  %8 = nd.rename %ab "a" -> "c" : (!ab) -> !nd.tensor<["c"=2, "b"=3], f32>
  %9 = nd.rename %ab "a" -> "c", "b" -> "a" : (!ab) -> !nd.tensor<["c"=2, "a"=3], f32>
  %10 = nd.gather %ab[%i] over "b" : (!ab, !nd.tensor<["c"=5], i32>) -> !nd.tensor<["a"=2, "c"=5], f32>
  %j = nd.input "j" : !nd.tensor<["b"=3], i32>
  %11 = nd.put %ab[%j] over "d" : (!ab, !nd.tensor<["b"=3], i32>) -> !nd.tensor<["d"=7, "a"=2], f32>
}

// Equal positions have one form, however they are written.
// CHECK-LABEL: nd.program @views
// CHECK:         nd.view %[[AB:.*]] ["b" = 2 "c" + "d" - 1] : (!a_by_b) -> !a_by_c_by_d
// CHECK-NEXT:    nd.view %[[AB]] ["b" = 2 "c" + "d" - 1] : (!a_by_b) -> !a_by_c_by_d
// CHECK-NEXT:    nd.view %[[AB]] ["b" = (-"c" + 3) / 2] : (!a_by_b) -> !a_by_c
// CHECK-NEXT:    nd.view %[[AB]] ["b" = "c"] : (!a_by_b) -> !a_by_c
// CHECK-NEXT:    nd.view %[[AB]] ["b" = floor("c" / 2)] : (!a_by_b) -> !a_by_c
// CHECK-NEXT:    nd.view %[[AB]] ["b" = (-"b" + 2) mod 3] : (!a_by_b) -> !a_by_b
// CHECK-NEXT:    nd.view %[[AB]] ["a" = 1, "b" = 0] : (!a_by_b) -> !scalar
// CHECK-NEXT:    nd.view %[[AB]] [] : (!a_by_b) -> !a_by_b
nd.program @views {
  %ab = nd.input "ab" : !ab
  %0 = nd.view %ab ["b" = 2 "c" + "d" - 1] : (!ab) -> !nd.tensor<["a"=2, "c"=5, "d"=7], f32>
  %1 = nd.view %ab ["b" = (1 + 4 "c" + 2 "d" - 3) / 2] : (!ab) -> !nd.tensor<["a"=2, "c"=5, "d"=7], f32>
  %2 = nd.view %ab ["b" = (3 - "c") / 2] : (!ab) -> !nd.tensor<["a"=2, "c"=5], f32>
  %3 = nd.view %ab ["b" = floor((3 "c" + 2) / 3)] : (!ab) -> !nd.tensor<["a"=2, "c"=5], f32>
  %4 = nd.view %ab ["b" = floor((2 "c" + 1) / 4)] : (!ab) -> !nd.tensor<["a"=2, "c"=5], f32>
  %5 = nd.view %ab ["b" = (2 "b" + 5) mod 3] : (!ab) -> !ab
  %6 = nd.view %ab ["a" = 1, "b" = 0 "c"] : (!ab) -> !s
  %7 = nd.view %ab [] : (!ab) -> !ab
}

// CHECK-LABEL: nd.program @elementwise
// CHECK:         %[[A:.*]] = nd.input "a" : !a
// CHECK:         %[[B:.*]] = nd.input "b" : !b
// CHECK:         %[[P:.*]] = nd.input "p" : !a_i1
// CHECK-NEXT:    nd.neg %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.exp %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.log %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.tanh %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.logistic %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.erf %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.erf_inv %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.sin %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.cos %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.sqrt %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.rsqrt %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.abs %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.sign %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.stop_gradient %[[A]] : (!a) -> !a
// CHECK-NEXT:    nd.not %[[P]] : (!a_i1) -> !a_i1
// CHECK-NEXT:    nd.add %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.sub %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.mul %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.div %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.minimum %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.maximum %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.pow %[[A]], %[[B]] : (!a, !b) -> !a_by_b
// CHECK-NEXT:    nd.and %[[P]], %[[P]] : (!a_i1, !a_i1) -> !a_i1
// CHECK-NEXT:    nd.or %[[P]], %[[P]] : (!a_i1, !a_i1) -> !a_i1
// CHECK-NEXT:    nd.compare eq %[[A]], %[[B]] : (!a, !b) -> !a_by_b_i1
// CHECK-NEXT:    nd.compare ne %[[A]], %[[A]] : (!a, !a) -> !a_i1
// CHECK-NEXT:    nd.compare lt %[[A]], %[[A]] : (!a, !a) -> !a_i1
// CHECK-NEXT:    nd.compare le %[[A]], %[[A]] : (!a, !a) -> !a_i1
// CHECK-NEXT:    nd.compare gt %[[A]], %[[A]] : (!a, !a) -> !a_i1
// CHECK-NEXT:    nd.compare ge %[[A]], %[[A]] : (!a, !a) -> !a_i1
// CHECK-NEXT:    nd.select %[[P]], %[[A]], %[[B]] : (!a_i1, !a, !b) -> !a_by_b
// CHECK-NEXT:    nd.cast %[[A]] : (!a) -> !a_bf16
nd.program @elementwise {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %p = nd.input "p" : !nd.tensor<["a"=2], i1>
  %0 = nd.neg %a : (!a) -> !a
  %1 = nd.exp %a : (!a) -> !a
  %2 = nd.log %a : (!a) -> !a
  %3 = nd.tanh %a : (!a) -> !a
  %4 = nd.logistic %a : (!a) -> !a
  %5 = nd.erf %a : (!a) -> !a
  %inverse = nd.erf_inv %a : (!a) -> !a
  %sine = nd.sin %a : (!a) -> !a
  %cosine = nd.cos %a : (!a) -> !a
  %6 = nd.sqrt %a : (!a) -> !a
  %7 = nd.rsqrt %a : (!a) -> !a
  %8 = nd.abs %a : (!a) -> !a
  %9 = nd.sign %a : (!a) -> !a
  %10 = nd.stop_gradient %a : (!a) -> !a
  %11 = nd.not %p : (!nd.tensor<["a"=2], i1>) -> !nd.tensor<["a"=2], i1>
  %12 = nd.add %a, %b : (!a, !b) -> !ab
  %13 = nd.sub %a, %b : (!a, !b) -> !ab
  %14 = nd.mul %a, %b : (!a, !b) -> !ab
  %15 = nd.div %a, %b : (!a, !b) -> !ab
  %16 = nd.minimum %a, %b : (!a, !b) -> !ab
  %17 = nd.maximum %a, %b : (!a, !b) -> !ab
  %18 = nd.pow %a, %b : (!a, !b) -> !ab
  %19 = nd.and %p, %p : (!nd.tensor<["a"=2], i1>, !nd.tensor<["a"=2], i1>) -> !nd.tensor<["a"=2], i1>
  %20 = nd.or %p, %p : (!nd.tensor<["a"=2], i1>, !nd.tensor<["a"=2], i1>) -> !nd.tensor<["a"=2], i1>
  %21 = nd.compare eq %a, %b : (!a, !b) -> !nd.tensor<["a"=2, "b"=3], i1>
  %22 = nd.compare ne %a, %a : (!a, !a) -> !nd.tensor<["a"=2], i1>
  %23 = nd.compare lt %a, %a : (!a, !a) -> !nd.tensor<["a"=2], i1>
  %24 = nd.compare le %a, %a : (!a, !a) -> !nd.tensor<["a"=2], i1>
  %25 = nd.compare gt %a, %a : (!a, !a) -> !nd.tensor<["a"=2], i1>
  %26 = nd.compare ge %a, %a : (!a, !a) -> !nd.tensor<["a"=2], i1>
  %27 = nd.select %p, %a, %b : (!nd.tensor<["a"=2], i1>, !a, !b) -> !ab
  %28 = nd.cast %a : (!a) -> !nd.tensor<["a"=2], bf16>
}

// CHECK-LABEL: nd.program @reshards
// CHECK:         nd.reshard %{{.*}} of state : !a_by_b -> !a_at_x_by_b
// CHECK-NEXT:    %[[R:.*]] = nd.reshard %{{.*}} : !a_by_b -> !a_at_x_by_b
// CHECK-NEXT:    nd.reshard %[[R]] {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = [], alternative = "exchange", alternativeUs = 2.000000e+00 : f64, chosenUs = 1.000000e+00 : f64>, #nd.cause<kind = no_rule, rule = "q", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = []>]} : !a_at_x_by_b -> !a_by_b_at_x
nd.program @reshards {
  %a = nd.input "a" : !ab
  %role = nd.reshard %a of state : !ab -> !nd.tensor<["a"=2, "b"=3], f32, <"a"@x>>
  %r = nd.reshard %a : !ab -> !nd.tensor<["a"=2, "b"=3], f32, <"a"@x>>
  %q = nd.reshard %r {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = [], alternative = "exchange", alternativeUs = 2.0, chosenUs = 1.0>, #nd.cause<kind = no_rule, rule = "q", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = []>]} : !nd.tensor<["a"=2, "b"=3], f32, <"a"@x>> -> !nd.tensor<["a"=2, "b"=3], f32, <"b"@x>>
}

!position = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
!cx = !nd.tensor<["c"=2, "time"=3], f32>

// CHECK-LABEL: nd.program @loops
// CHECK:         %[[R:.*]]:3 = nd.loop "time"=3 carries(%{{.*}}) slices(%{{.*}}, %{{.*}}) : (!c, !time_by_c, !c_by_time) -> (!c, !time_by_c, !c) {
// CHECK-NEXT:    ^bb0(%[[T:.*]]: !scalar_i32, %[[H:.*]]: !c, %[[S:.*]]: !c, %[[U:.*]]: !c):
// CHECK-NEXT:      nd.yield carries(%[[S]] : !c) stacks(%[[H]] : !c) sums(%[[U]] : !c)
// CHECK:         nd.loop "time"=3 reverse : () -> () {
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32):
// CHECK-NEXT:      nd.yield{{$}}
nd.program @loops {
  %x = nd.input "x" : !xc
  %y = nd.input "y" : !cx
  %h = nd.input "h" : !c
  %r:3 = nd.loop "time"=3 carries(%h) slices(%x, %y) : (!c, !xc, !cx) -> (!c, !xc, !c) {
  ^bb0(%t: !position, %a: !c, %s: !c, %u: !c):
    nd.yield carries(%s : !c) stacks(%a : !c) sums(%u : !c)
  }
  nd.loop "time"=3 reverse : () -> () {
  ^bb0(%t: !position):
    nd.yield
  }
}

// CHECK-LABEL: nd.program @stacks
// CHECK:         %[[S:.*]]:3 = nd.unstack %{{.*}} along "time" : (!c_by_time) -> (!c, !c, !c)
// CHECK-NEXT:    nd.stack %[[S]]#2, %[[S]]#0 along "pair" : (!c, !c) -> !pair_by_c
nd.program @stacks {
  %y = nd.input "y" : !cx
  %s:3 = nd.unstack %y along "time" : (!cx) -> (!c, !c, !c)
  %p = nd.stack %s#2, %s#0 along "pair" : (!c, !c) -> !nd.tensor<["pair"=2, "c"=2], f32>
}
