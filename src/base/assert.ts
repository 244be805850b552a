/**
 * Assertions are always on: a broken invariant stops the process (invariant 9), because continuing in doubtful
 * state could acknowledge what is not durable. Expected failures are typed values or `StreamError`, never assertions.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}
