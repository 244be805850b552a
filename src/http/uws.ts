/**
 * Loads uWebSockets.js. Two builds are installed, because neither serves every host: the newer needs Node 22, 24
 * or 26 and glibc 2.38 (Debian 13, Ubuntu 24.04), the older takes Node 18 to 23 and glibc 2.36.
 *
 * A build is a JavaScript half and a native half in a package of its own (`@uwsjs/<platform>-<arch>-<major>`). npm
 * hoists the native halves, so on Node 20 the newer JavaScript half finds the OLDER native half and loads without an
 * error. Such a pair was never released or tested, so the two versions are compared and a mixed pair is refused.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import process from 'node:process';
import type * as UwsModule from 'uws-glibc236';
import { ATTRIBUTES_BYTES_MAX } from '../base/limits.ts';

/** The older build's surface: the newer one only adds to what we use. */
export type Uws = typeof UwsModule;
export type UwsApp = UwsModule.TemplatedApp;
export type UwsListenSocket = UwsModule.us_listen_socket;
export type UwsRequest = UwsModule.HttpRequest;
export type UwsResponse = UwsModule.HttpResponse;
/** A request that may become a WebSocket. */
export type UwsHandshake = UwsModule.us_socket_context_t;
export type UwsSocket<Data> = UwsModule.WebSocket<Data>;

/** Newest first: the first that loads wins. */
const BUILDS = ['uws-glibc238', 'uws-glibc236'] as const;

/**
 * Largest request line and header block: 16 KiB, and Stream-Attrs of twice the attributes that are taken,
 * so that what is too large is told so with 400. uWebSockets.js allows 4 KiB unless told otherwise.
 */
const HEADER_BLOCK_BYTES_MAX = 16 * 1024 + 2 * ATTRIBUTES_BYTES_MAX;

const HEADERS_SIZE = 'UWS_HTTP_MAX_HEADERS_SIZE';

const require = createRequire(import.meta.url);

/** No build of uWebSockets.js loads here; the message is one sentence for the operator. */
export class HttpLibraryError extends Error {
  override readonly name = 'HttpLibraryError';
}

/** Throws HttpLibraryError. */
export function loadUws(): Uws {
  const failures: string[] = [];
  // The native half reads it once, when it is loaded: later changes have no effect, and other programs need not see it.
  process.env[HEADERS_SIZE] = String(HEADER_BLOCK_BYTES_MAX);
  try {
    for (const build of BUILDS) {
      try {
        return loadBuild(build);
      } catch (error) {
        failures.push(`${build}: ${lastLine(error)}`);
      }
    }
  } finally {
    delete process.env[HEADERS_SIZE];
  }
  throw new HttpLibraryError(
    `uWebSockets.js does not load on Node ${process.versions.node} (${process.platform} ${process.arch}): when another Node ` +
      `installed the packages, run "npm ci" with this one (${failures.join('; ')})`,
  );
}

function loadBuild(build: string): Uws {
  const script = require.resolve(build);
  const native = `@uwsjs/${process.platform}-${process.arch}-${process.versions.node.split('.')[0]}`;
  // Resolved from the build's own folder, as the build itself will do it.
  const nativeVersion = packageVersion(createRequire(script).resolve(`${native}/package.json`));
  const scriptVersion = packageVersion(join(dirname(script), 'package.json'));
  if (nativeVersion !== scriptVersion) throw new Error(`no native half of version ${scriptVersion} for this Node`);
  return require(build) as Uws;
}

function packageVersion(path: string): string {
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
}

/** The builds wrap the reason into a paragraph; its last line is the loader's own message. */
function lastLine(error: unknown): string {
  const lines = String(error instanceof Error ? error.message : error).split('\n');
  return (lines[0]?.startsWith('Cannot find module') ? lines[0] : lines.at(-1)) ?? '';
}
