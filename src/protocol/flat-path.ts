/**
 * Paths of the flat routes (`/v1/stream/{path}`): converts bucket and stream to one path and back. Everything after the
 * first slash is the name of the stream, including empty segments: `a/b/` is the stream `b/` of bucket `a`.
 */

const DEFAULT_BUCKET = '_default';

export interface StreamName {
  readonly bucket: string;
  readonly stream: string;
}

/** Split at the first slash; without one the bucket is `_default`. */
export function splitFlatPath(path: string): StreamName {
  const slash = path.indexOf('/');
  if (slash < 0) return { bucket: DEFAULT_BUCKET, stream: path };
  return { bucket: path.slice(0, slash), stream: path.slice(slash + 1) };
}

/** The shortest path of a stream: every stream has exactly one. */
export function flatPath(bucket: string, stream: string): string {
  return bucket === DEFAULT_BUCKET && !stream.includes('/') ? stream : `${bucket}/${stream}`;
}
