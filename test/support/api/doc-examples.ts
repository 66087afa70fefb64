import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'

const root = join(import.meta.dirname, '../../..')

export type CodeBlock = {
  /** The page and the line of the fence, for titles and failures. */
  where: string
  /** The first word after the fence; empty where there is none. */
  language: string
  /** `name=value` words after the language. */
  options: Record<string, string>
  code: string
}
export type Page = { path: string; text: string; blocks: CodeBlock[] }

/** README.md and the pages of docs/, without docs/decisions/. */
export function readPages(): Page[] {
  const names = readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md'))
  return ['README.md', ...names.map(name => `docs/${name}`)].map(path => {
    const text = readFileSync(join(root, path), 'utf8')
    return { path, text, blocks: findBlocks(path, text) }
  })
}

/** The fenced blocks of a page. Throws at a fence that is never closed. */
export function findBlocks(path: string, text: string): CodeBlock[] {
  const blocks: CodeBlock[] = []
  let open: { block: CodeBlock; lines: string[] } | null = null
  for (const [index, line] of text.split('\n').entries()) {
    const info = /^\s*(?:```|~~~)(.*)$/.exec(line)?.[1]
    if (info === undefined) open?.lines.push(line)
    else if (open) {
      blocks.push({ ...open.block, code: `${open.lines.join('\n')}\n` })
      open = null
    } else {
      const [language = '', ...words] = info.trim().split(/\s+/)
      const options = Object.fromEntries(words.map(word => word.split('=', 2)))
      open = { block: { where: `${path}:${index + 1}`, language, options, code: '' }, lines: [] }
    }
  }
  if (open) throw new Error(`${open.block.where}: the block is not closed`)
  return blocks
}

/** The relative links of a page as paths from the root, with their anchors. */
export function findLinks({ path, text }: Page): { target: string; anchor: string | null }[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '')
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link]) => {
    if (/^[a-z]+:/.test(link!)) return []
    const [file = '', anchor = null] = link!.split('#')
    return [{ target: relative(root, join(root, dirname(path), file || basename(path))), anchor }]
  })
}

/** The anchors that GitHub gives to the headings of a page, and those that the page names itself. */
export function findAnchors(text: string): Set<string> {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '')
  const headings = [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  const named = [...prose.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id!)
  return new Set([...headings, ...named])
}
