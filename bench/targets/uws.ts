// uWebSockets.js for the bare peers: the build that fits this machine (the newer one needs glibc 2.38), as the server
// itself chooses it. Only what the peers call is typed: the package's own types do not resolve under "nodenext".

import { createRequire } from 'node:module';

export interface UwsResponse {
  writeStatus(status: string): UwsResponse;
  writeHeader(key: string, value: string): UwsResponse;
  write(chunk: Uint8Array | string): boolean;
  end(body?: string | Uint8Array): UwsResponse;
  endWithoutBody(): UwsResponse;
  cork(callback: () => void): UwsResponse;
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): UwsResponse;
  onAborted(handler: () => void): UwsResponse;
}

export interface UwsRequest {
  getUrl(): string;
  getQuery(key: string): string | undefined;
}

export interface UwsApp {
  any(pattern: string, handler: (res: UwsResponse, req: UwsRequest) => void): UwsApp;
  get(pattern: string, handler: (res: UwsResponse, req: UwsRequest) => void): UwsApp;
  post(pattern: string, handler: (res: UwsResponse, req: UwsRequest) => void): UwsApp;
  put(pattern: string, handler: (res: UwsResponse, req: UwsRequest) => void): UwsApp;
  listen(host: string, port: number, callback: (socket: unknown) => void): UwsApp;
}

const require = createRequire(import.meta.url);

export function loadUws(): { App(): UwsApp } {
  const reasons: string[] = [];
  for (const alias of ['uws-glibc238', 'uws-glibc236']) {
    try {
      return require(alias) as { App(): UwsApp };
    } catch (error) {
      reasons.push(String(error).split('\n')[0] ?? alias);
    }
  }
  throw new Error(`no uWebSockets.js build loads here: ${reasons.join('; ')}`);
}
