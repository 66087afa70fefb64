// The second part of `npm run build`: the documentation as a site, from docs/.

import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'
import { compressFiles } from '../compress-files.ts'

const docs = join(import.meta.dirname, '../../docs')
const built = join(import.meta.dirname, 'dist')

await rm(built, { recursive: true, force: true })
await build(docs)
await copyReference()
await writeTexts()
await writeFile(join(built, 'inline-scripts.json'), JSON.stringify(inlineScripts()))
await compressFiles(built)
// Written last: without it, the build is incomplete.
await writeFile(join(built, 'built'), '')

/** Copies the reader of the API reference. */
async function copyReference(): Promise<void> {
  const browser = join(dirname(fileURLToPath(import.meta.resolve('@scalar/api-reference'))), 'browser')
  const target = join(built, 'api/reference')
  await mkdir(target, { recursive: true })
  for (const path of ['standalone.esm.js', 'chunks'])
    await cp(join(browser, path), join(target, path), { recursive: true, filter: source => !source.endsWith('.map') })
}

/** Writes the Markdown of every page beside it, and their list and all their text for language models (llmstxt.org). */
async function writeTexts(): Promise<void> {
  const pages = globSync('*.md', { cwd: docs }).sort()
  const texts = pages.map(name => ({ name, text: readFileSync(join(docs, name), 'utf8') }))
  for (const { name, text } of texts) await writeFile(join(built, name), text)
  const lines = texts.map(({ name, text }) => `- [${titleOf(text)}](/docs/${name})${summaryOf(text)}`)
  const list = `# Headgate\n\n> A self-hosted gateway for generative models.\n\n## Documentation\n\n${lines.join('\n')}\n`
  await writeFile(join(built, 'llms.txt'), `${list}\n- [OpenAPI document](/openapi.json)\n`)
  await writeFile(join(built, 'llms-full.txt'), texts.map(({ text }) => text).join('\n\n'))
}

function titleOf(text: string): string {
  return /^# (.+)$/m.exec(text)![1]!
}

/** The first sentence of a page. */
function summaryOf(text: string): string {
  const paragraph = text.split('\n\n').find(part => /^[A-Z`[]/.test(part))
  const sentence = paragraph?.replaceAll('\n', ' ').match(/^.*?[.:](?=\s|$)/)?.[0]
  return sentence ? `: ${sentence.replace(/\]\([^)]*\)/g, ']').replace(/:$/, '.')}` : ''
}

/** The hashes of scripts inside pages, which the content policy allows by them. */
function inlineScripts(): string[] {
  const hashes = new Set<string>()
  for (const path of globSync('**/*.html', { cwd: built })) {
    const html = readFileSync(join(built, path), 'utf8')
    for (const [, attributes, code] of html.matchAll(/<script\b([^>]*)>([\s\S]*?)<\/script>/g))
      if (!/\bsrc=/.test(attributes!) && code !== '')
        hashes.add(`sha256-${createHash('sha256').update(code!).digest('base64')}`)
  }
  return [...hashes]
}
