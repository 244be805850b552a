/** BUCKET/STREAM as the tool and the flat routes write it. */
import { Failure, UsageError, printable } from '../../nodes/failure.ts';

/** Half of a surrogate pair: no node has such a name, and a URL cannot carry it. */
const HALF_PAIR = /\p{Surrogate}/u;

export interface NamedStream {
  readonly bucket: string;
  readonly stream: string;
  /** BUCKET/STREAM, as a terminal may show it. */
  readonly text: string;
  /** BUCKET/STREAM, for programs. */
  readonly raw: string;
  /** The flat route reaches every name, also those that the bucketed routes use otherwise. */
  readonly path: string;
}

/** The paths of the flat route, in which a name without a / is in the default bucket. */
export const FLAT_ROUTE = '/v1/stream/';
export const DEFAULT_BUCKET = '_default';

/** The first / ends the bucket; further ones belong to the stream. */
export function parseStreamName(text: string): NamedStream {
  const at = text.indexOf('/');
  const [bucket, stream] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
  if (bucket === '' || stream === '') throw new UsageError(`${JSON.stringify(text)}: expected BUCKET/STREAM`);
  return streamName(bucket, stream);
}

export function streamName(bucket: string, stream: string): NamedStream {
  const raw = `${bucket}/${stream}`;
  const text = printable(raw);
  if (HALF_PAIR.test(raw)) throw new Failure(`${text}: the name is not valid Unicode`);
  const segments = stream.split('/').map(encodeURIComponent).join('/');
  return { bucket, stream, text, raw, path: `${FLAT_ROUTE}${encodeURIComponent(bucket)}/${segments}` };
}

/** Attributes and snapshots are only below the bucketed route. */
export const bucketedPath = ({ bucket, stream }: NamedStream): string =>
  `${bucketPath(bucket)}/${encodeURIComponent(stream)}`;

/** Throws a Failure. */
export function bucketPath(bucket: string): string {
  if (HALF_PAIR.test(bucket)) throw new Failure(`${printable(bucket)}: the name is not valid Unicode`);
  return `/${encodeURIComponent(bucket)}`;
}
