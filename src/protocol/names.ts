/** Valid names of buckets and streams. */
import { NAME_BYTES_MAX } from '../base/limits.ts';
import { textBytes } from '../base/text.ts';

/** The fault in the name of a stream, or of a bucket when `stream` is undefined. */
export function nameFault(bucket: string, stream: string | undefined): string | undefined {
  if (bucket === '') return 'the bucket name is empty';
  if (bucket === 'v1') return 'the bucket name v1 is reserved; flat paths begin with /v1/stream/';
  if (bucket.startsWith('__')) return 'bucket names beginning with __ are reserved';
  if (isUnsafe(bucket)) return 'the bucket name holds NUL or a .. segment';
  if (stream !== undefined) {
    if (stream === '') return 'the stream name is empty';
    if (stream.startsWith('__')) return 'stream names beginning with __ are reserved';
    if (isUnsafe(stream)) return 'the stream name holds NUL or a .. segment';
  }
  const name = stream ?? '';
  // Three bytes are the most that a UTF-16 unit needs, so short names need no exact count.
  if (3 * (bucket.length + name.length) > NAME_BYTES_MAX && nameBytes(bucket, name) > NAME_BYTES_MAX) {
    return `bucket and stream name together exceed ${NAME_BYTES_MAX} bytes`;
  }
  return undefined;
}

/** NUL separates bucket and stream in keys; `..` is dangerous wherever a name becomes a path. */
function isUnsafe(name: string): boolean {
  if (name.includes('\0')) return true;
  return name.includes('..') && hasSegment(name, '..');
}

function hasSegment(path: string, segment: string): boolean {
  return path.includes('/') ? path.split('/').includes(segment) : path === segment;
}

/** UTF-8 size of a stream's name as the limit counts it: bucket and stream together. */
export function nameBytes(bucket: string, stream: string): number {
  return textBytes(bucket) + textBytes(stream);
}
