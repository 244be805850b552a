/**
 * Names of the reply fields whose meaning depends on the operation: three numbers and a text (the frame: reply.ts).
 * Only this folder may use them; each operation gives its own result proper names.
 */
export const A = Symbol('a');
export const B = Symbol('b');
export const C = Symbol('c');
export const TEXT = Symbol('text');
