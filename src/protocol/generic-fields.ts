/**
 * Names of the fields of a reply whose meaning depends on the operation: three numbers and a text (the frame: reply.ts). Only the
 * files of this folder may use them; each operation declares what its own result is called.
 */
export const A = Symbol('a');
export const B = Symbol('b');
export const C = Symbol('c');
export const TEXT = Symbol('text');
