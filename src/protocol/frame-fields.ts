/**
 * Requests and results whose values stand in one field of the frame each: an operation says once what a value is called, its type and
 * where it stands. Not for what each append or read uses; that has functions of its own.
 */
import type { StreamName } from './flat-path.ts';
import type { ResultCodec } from './operation.ts';
import type { Reply } from './reply.ts';
import { type Query, type Request, type RequestCodec, nameStream } from './request.ts';

export interface FrameField<Frame, T> {
  get(frame: Frame): T;
  set(frame: Frame, value: T): void;
}

type Fields<Frame> = Readonly<Record<string, FrameField<Frame, unknown>>>;
export type ValuesOf<F> = { readonly [Name in keyof F]: F[Name] extends FrameField<never, infer T> ? T : never };
/** The values in an operation's result. */
export type ResultOf<Codec> = Codec extends ResultCodec<infer Result> ? Result : never;

type Holding<Slot extends PropertyKey, T> = { [K in Slot]: T };

export function numberIn<const Slot extends PropertyKey>(slot: Slot): FrameField<Holding<Slot, number>, number> {
  return valueIn(slot);
}

export function textIn<const Slot extends PropertyKey>(slot: Slot): FrameField<Holding<Slot, string>, string> {
  return valueIn(slot);
}

function valueIn<Slot extends PropertyKey, T>(slot: Slot): FrameField<Holding<Slot, T>, T> {
  return {
    get: (frame) => frame[slot],
    set: (frame, value) => {
      frame[slot] = value;
    },
  };
}

/** As 1 or 0. */
export function flagIn<const Slot extends PropertyKey>(slot: Slot): FrameField<Holding<Slot, number>, boolean> {
  return choiceIn(slot, [false, true]);
}

/** By its place in the list; what is not in it is the first one. */
export function choiceIn<const Slot extends PropertyKey, const T>(
  slot: Slot,
  choices: readonly [T, ...T[]],
): FrameField<Holding<Slot, number>, T> {
  return {
    get: (frame) => choices[frame[slot]] ?? choices[0],
    set: (frame, value) => {
      frame[slot] = choices.indexOf(value);
    },
  };
}

export function resultFields<F extends Fields<Reply>>(fields: F): ResultCodec<ValuesOf<F>> {
  return fieldsCodec<Reply, Reply, ValuesOf<F>>(fields);
}

export function queryFields<F extends Fields<Request & Query>>(fields: F): RequestCodec<ValuesOf<F>> {
  return fieldsCodec<Request, Query, ValuesOf<F>>(fields);
}

/** And the name of a stream, which the shard reads on its own. */
export function streamQueryFields<F extends Fields<Request & Query>>(
  fields: F,
): RequestCodec<StreamName & ValuesOf<F>, ValuesOf<F>> {
  const codec = queryFields(fields);
  return {
    write(request, asked) {
      nameStream(request, asked);
      codec.write(request, asked);
    },
    read: (query) => codec.read(query),
  };
}

function fieldsCodec<Written, Read, Values extends Readonly<Record<string, unknown>>>(
  fields: Fields<Written & Read>,
): {
  write(frame: Written, values: Values): void;
  read(frame: Read): Values;
} {
  const entries = Object.entries(fields);
  const write = (frame: Written & Read, values: Readonly<Record<string, unknown>>): void => {
    for (const [name, field] of entries) field.set(frame, values[name]);
  };
  const read = (frame: Written & Read): Values =>
    Object.fromEntries(entries.map(([name, field]) => [name, field.get(frame)])) as Values;
  return { write, read };
}
