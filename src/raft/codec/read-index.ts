import type { Codec } from './codec.ts';
import type { ReadIndexRequest, ReadIndexResponse } from '../types.ts';

/** No flags. Body: context f64. */
export const readIndexCodec: Codec<ReadIndexRequest> = {
  number: 9,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 8,
  writeBody(writer, message) {
    writer.int53(message.context);
  },
  readBody: (reader, _flags, { from, to, term }) => ({ type: 'read-index', from, to, term, context: reader.int53() }),
};

/** No flags. Body: context f64 | index f64. */
export const readIndexResponseCodec: Codec<ReadIndexResponse> = {
  number: 10,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 16,
  writeBody(writer, message) {
    writer.int53(message.context);
    writer.int53(message.index);
  },
  readBody: (reader, _flags, { from, to, term }) => ({
    type: 'read-index-response',
    from,
    to,
    term,
    context: reader.int53(),
    index: reader.int53(),
  }),
};
