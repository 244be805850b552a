// Paths that must never reach a stream, on both route families.
import { FAMILIES, FUZZ_BUCKET, request, type Attack } from './attack.ts';

/** Paths that must never reach a stream: nothing may answer 2xx to a write on them. */
const FORBIDDEN_PATHS: readonly string[] = [
  ...FAMILIES.flatMap((base) => [
    `${base}%00`,
    `${base}a%00b`,
    `${base}..`,
    `${base}%2e%2e`,
    `${base}%2E.`,
    `${base}.%2e`,
    `${base}..%2fx`,
    `${base}a%2f..%2fb`,
    `${base}a%2f%2e%2e`,
    `${base}%ff`,
    `${base}%c0%af`,
    `${base}%ed%a0%80`,
    `${base}%f8%88%80%80%80`,
    `${base}%`,
    `${base}%z`,
    `${base}%zz`,
    `${base}a%2`,
    `${base}%u1234`,
    `${base}\xff\xfe`,
    `${base}a\x01b`,
    `${base}${'n'.repeat(1100)}`,
    `${base}${'%61'.repeat(1100)}`,
    base,
  ]),
  '/__svc/x',
  '/__svc/',
  '/__svc/metrics/x',
  '/__svc/..',
  '/__svc%2fx/y',
  '/%5f%5fsvc/x',
  '/%5F_svc/metrics',
  '/__other/x',
  '/%00/x',
  '/../x',
  '/%2e%2e/x',
  '//x',
  `/${FUZZ_BUCKET}//x`,
  '/v1/stream/',
  '/v1/stream//x',
  '/v1/stream/a/',
  '/v1/stream/a%2F',
  '/v1/stream/a//..',
  '/v1/stream/a//%2e%2E//b',
  '/v1/stream/../x',
  '/v1/stream/%2e%2e/x',
  '/v1/stream/__svc/x',
  '/v1/stream',
  '/v1/x',
  '/v1/streams/x',
  '*',
  '',
  'x',
  'http://localhost/fuzz/absolute',
];

export function forbiddenPaths(): Attack[] {
  return FORBIDDEN_PATHS.flatMap((path) =>
    ['PUT', 'POST', 'DELETE', 'GET', 'HEAD'].map((method) => ({
      label: `${method} ${JSON.stringify(path)}`,
      bytes: request(method, path, ['Content-Type: text/plain'], method === 'PUT' || method === 'POST' ? 'x' : ''),
      // A broken request line may make the rest of the head unreadable for the HTTP library.
      complete: path.startsWith('/'),
    })),
  );
}
