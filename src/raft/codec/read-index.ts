import type { Codec } from './codec.ts';
import { f64, struct } from '../../base/struct.ts';
import type { ReadIndexRequest, ReadIndexResponse } from '../types.ts';

export const READ_INDEX = struct({ context: f64 });
export const READ_INDEX_ANSWER = struct({ context: f64, index: f64 });

/** No flags. */
export const readIndexCodec: Codec<ReadIndexRequest> = {
  number: 9,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => READ_INDEX.size,
  writeBody(writer, message) {
    writer.record(READ_INDEX, message);
  },
  readBody: (reader, _flags, envelope) => ({ type: 'read-index', ...envelope, ...reader.record(READ_INDEX) }),
};

/** No flags. */
export const readIndexResponseCodec: Codec<ReadIndexResponse> = {
  number: 10,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => READ_INDEX_ANSWER.size,
  writeBody(writer, message) {
    writer.record(READ_INDEX_ANSWER, message);
  },
  readBody: (reader, _flags, envelope) => ({
    type: 'read-index-response',
    ...envelope,
    ...reader.record(READ_INDEX_ANSWER),
  }),
};
