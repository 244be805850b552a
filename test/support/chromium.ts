// Debian's chromium without a window, driven by Playwright. Pages may ask one origin only, and
// every complaint of the browser is kept.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { type Browser, type Page, chromium } from 'playwright-core';
import { PATIENCE_MS } from './until.ts';

/** The first is the same engine without the browser around it: a page costs a fourth of the processor. */
const PROGRAMS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].map(
  (name) => `/usr/bin/${name}`,
);

function program(): string | undefined {
  return PROGRAMS.find((path) => existsSync(path));
}

/** Undefined when it is there. */
export function chromiumMissing(): string | undefined {
  return program() === undefined ? 'chromium is not installed (apt-get install chromium-headless-shell)' : undefined;
}

export async function startChromium(): Promise<Browser> {
  const executablePath = program();
  assert(executablePath !== undefined, chromiumMissing());
  // Its own sandbox needs a kernel feature that containers lack; it opens pages of this test only.
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
}

/** A page of another origin than the nodes'. The result is its address. */
export async function servePage(t: TestContext, html: string): Promise<string> {
  const pages = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(html));
  pages.listen(0, '127.0.0.1');
  await once(pages, 'listening');
  // A browser may keep its connection until it is closed.
  t.after(() => pages.close());
  return `http://127.0.0.1:${(pages.address() as AddressInfo).port}/`;
}

export interface Visit {
  readonly page: Page;
  /** The browser's complaints: refused by the policy, uncaught exceptions, and requests to other origins. */
  readonly complaints: string[];
}

export interface VisitOptions {
  readonly width?: number;
  /** For scripts of the test in the page, which its policy refuses. */
  readonly bypassCSP?: true;
}

export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const { width = 1280, bypassCSP = false } = options;
  const context = await browser.newContext({ viewport: { width, height: 900 }, bypassCSP });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const complaints: string[] = [];
  const { origin } = new URL(url);
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // The browser says of each refused or failed request that there was one; the page has its own words for it.
    const isRequest = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRequest) complaints.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:')) complaints.push(request.url());
  });
  await page.goto(url);
  return { page, complaints };
}
