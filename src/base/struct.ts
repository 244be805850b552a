/**
 * Records of a fixed size, declared once: offsets, sizes, reading, writing and the tables in the documents follow.
 *
 *   const ENTRY = struct({ group: u16, kind: u8, zero: zeros(1), dataBytes: u32, term: f64, index: f64 }, 'data');
 *   ENTRY.encode({ group: 1, kind: 0, dataBytes: data.length, term: 7, index: 12 }, data)
 *   ENTRY.fields.term.get(view, at)
 *
 * A whole record costs some 200 ns. On hot paths fields are used one by one: the declaration is a constant, so V8
 * makes the load or the store of it that one would write by hand (bench/micro/struct.ts).
 */
import { viewOf } from './bytes.ts';
import { readText, writeText } from './text.ts';

/** So many bytes at a place in the record. */
interface Part {
  readonly at: number;
  readonly bytes: number;
  /** Where the next part begins. */
  readonly end: number;
  /** As the documents call it. */
  readonly kind: string;
}

export interface Field<T> extends Part {
  /** Reads the field of the record that begins at `record`. */
  get(view: DataView, record: number): T;
  set(view: DataView, record: number, value: T): void;
}

export interface NumberField extends Field<number> {
  /** Lower ones are none of the field's values; readers of what comes from elsewhere refuse them. */
  readonly lowest: number;
}

/** Bytes without a meaning, zero. */
interface Gap extends Part {
  clear(view: DataView, record: number): void;
}

type Kind<P extends Part = Part> = (at: number) => P;
export type NumberShape = Readonly<Record<string, Kind<NumberField>>>;
export type Shape = Readonly<Record<string, Kind>>;
/** The values of a record's fields. */
export type StructValues<S extends Shape> = {
  -readonly [K in keyof S as ReturnType<S[K]> extends Gap ? never : K]: ReturnType<S[K]> extends Field<infer T>
    ? T
    : never;
};

export interface Struct<S extends Shape = Shape> {
  readonly size: number;
  readonly fields: { readonly [K in keyof S]: ReturnType<S[K]> };
  /** Names the bytes that follow the record, for the documents. */
  readonly rest: string;
  read(view: DataView, record: number): StructValues<S>;
  write(view: DataView, record: number, values: Readonly<StructValues<S>>): void;
  /** A record with what follows it, and back. */
  encode(values: Readonly<StructValues<S>>, rest?: Uint8Array): Uint8Array<ArrayBuffer>;
  decode(bytes: Uint8Array): StructValues<S>;
}

const NOTHING = new Uint8Array(0);
const TWO_32 = 0x1_0000_0000;

/** A record with these parts, one behind the other. `rest` says in words what follows it. */
export function struct<S extends Shape>(shape: S, rest = ''): Struct<S> {
  let size = 0;
  const parts = Object.entries(shape).map(([name, kind]) => {
    const part = kind(size);
    size = part.end;
    return [name, part] as const;
  });
  const write = (view: DataView, record: number, values: Readonly<Record<string, unknown>>): void => {
    for (const [name, part] of parts) {
      if (isField(part)) part.set(view, record, values[name]);
      else (part as Gap).clear(view, record);
    }
  };
  const read = (view: DataView, record: number): StructValues<S> => {
    const values: Record<string, unknown> = {};
    for (const [name, part] of parts) if (isField(part)) values[name] = part.get(view, record);
    return values as StructValues<S>;
  };
  const encode = (values: Readonly<Record<string, unknown>>, following = NOTHING): Uint8Array<ArrayBuffer> => {
    const bytes = new Uint8Array(size + following.length);
    write(viewOf(bytes), 0, values);
    bytes.set(following, size);
    return bytes;
  };
  const fields = Object.fromEntries(parts) as Struct<S>['fields'];
  return { size, fields, rest, read, write, encode, decode: (bytes) => read(viewOf(bytes), 0) };
}

function isField(part: Part): part is Field<unknown> {
  return 'set' in part;
}

type Load = (view: DataView, at: number) => number;
type Store = (view: DataView, at: number, value: number) => void;

function number(kind: string, bytes: number, load: Load, store: Store, lowest = 0): Kind<NumberField> {
  return (at) => ({
    ...{ kind, at, bytes, end: at + bytes, lowest },
    get: (view, record) => load(view, record + at),
    set: (view, record, value) => store(view, record + at, value),
  });
}

const loadF64: Load = (view, at) => view.getFloat64(at, true);
const storeF64: Store = (view, at, value) => view.setFloat64(at, value, true);

export const u8 = number(
  'u8',
  1,
  (view, at) => view.getUint8(at),
  (view, at, value) => view.setUint8(at, value),
);
/** Little-endian, like all without another name. */
export const u16 = number(
  'u16',
  2,
  (view, at) => view.getUint16(at, true),
  (view, at, value) => view.setUint16(at, value, true),
);
export const u32 = number(
  'u32',
  4,
  (view, at) => view.getUint32(at, true),
  (view, at, value) => view.setUint32(at, value, true),
);
/** Whole numbers up to 2^53 - 1. */
export const f64 = number('f64', 8, loadF64, storeF64);
/** And -1, which says that there is none. */
export const f64OrNone = number('f64', 8, loadF64, storeF64, -1);

/** All 64 bits. */
export const u64: Kind<Field<bigint>> = (at) => ({
  ...{ kind: 'u64', at, bytes: 8, end: at + 8 },
  get: (view, record) => view.getBigUint64(record + at, true),
  set: (view, record, value) => view.setBigUint64(record + at, value, true),
});

/** Big-endian numbers sort as their bytes do: for keys. */
export const u16BE = number(
  'u16 BE',
  2,
  (view, at) => view.getUint16(at),
  (view, at, value) => view.setUint16(at, value),
);
export const u32BE = number(
  'u32 BE',
  4,
  (view, at) => view.getUint32(at),
  (view, at, value) => view.setUint32(at, value),
);
export const u48BE = number(
  'u48 BE',
  6,
  (view, at) => view.getUint16(at) * TWO_32 + view.getUint32(at + 2),
  (view, at, value) => {
    view.setUint16(at, Math.floor(value / TWO_32));
    view.setUint32(at + 2, value >>> 0);
  },
);
/** Up to 2^53 - 1. */
export const u64BE = number(
  'u64 BE',
  8,
  (view, at) => view.getUint32(at) * TWO_32 + view.getUint32(at + 4),
  (view, at, value) => {
    view.setUint32(at, Math.floor(value / TWO_32));
    view.setUint32(at + 4, value >>> 0);
  },
);

/** Read as a view. */
export function bytes(size: number): Kind<Field<Uint8Array>> {
  return (at) => ({
    ...{ kind: `${size} bytes`, at, bytes: size, end: at + size },
    get: (view, record) => new Uint8Array(view.buffer, view.byteOffset + record + at, size),
    set: (view, record, value) =>
      new Uint8Array(view.buffer, view.byteOffset + record + at, size).set(value.subarray(0, size)),
  });
}

/** Text of exactly so many bytes; what is missing stays zero. */
export function text(size: number): Kind<Field<string>> {
  const kind = bytes(size);
  return (at) => {
    const field = kind(at);
    return {
      ...{ kind: `${size} bytes of text`, at, bytes: size, end: field.end },
      get: (view, record) => readText(field.get(view, record), 0, size),
      set: (view, record, value) => void writeText(field.get(view, record), 0, value),
    };
  };
}

export function zeros(size: number): Kind<Gap> {
  return (at) => ({
    ...{ kind: 'zero', at, bytes: size, end: at + size },
    clear: (view, record) => {
      for (let i = 0; i < size; i++) view.setUint8(record + at + i, 0);
    },
  });
}
