/** GET /__svc/openapi.json. */
import { readFileSync } from 'node:fs';
import type { Handler } from './router.ts';

export type Plane = 'client' | 'admin';

/** The build writes these files (scripts/openapi/build.ts). */
export const API_DOCUMENTS: Readonly<Record<Plane, URL>> = {
  client: new URL('./openapi-client.json', import.meta.url),
  admin: new URL('./openapi-admin.json', import.meta.url),
};

/** Reads the file for the first request, because most nodes are never asked. */
export function serveApiDocument(plane: Plane): Handler {
  let bytes: Uint8Array | undefined;
  return (call) => {
    const document = (bytes ??= readFileSync(API_DOCUMENTS[plane]));
    call.respond((res) => call.responder.json(res, 200, document));
  };
}
