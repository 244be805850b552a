/**
 * Names of the fields of the frames whose meaning depends on the operation: of a query (request.ts) and of a reply, three numbers and
 * a text (reply.ts). Only the files of this folder may use them; each operation declares what its own request and result are called.
 */
export const MODE = Symbol('mode');
export const FLAGS = Symbol('flags');
export const VALUE = Symbol('value');
export const MAX_BYTES = Symbol('maxBytes');
export const MAX_RECORDS = Symbol('maxRecords');
export const TOPIC = Symbol('topic');
export const PREFIX = Symbol('prefix');
export const AFTER = Symbol('after');
export const HELD = Symbol('held');
export const HELD_INCARNATION = Symbol('heldIncarnation');
export const HELD_LINEAGE = Symbol('heldLineage');
export const HELD_END = Symbol('heldEnd');

export const A = Symbol('a');
export const B = Symbol('b');
export const C = Symbol('c');
export const TEXT = Symbol('text');
