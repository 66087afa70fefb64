import postcss from 'postcss'
import type { Plugin } from 'vite'

/** Classes of the component kit, which are named by a hash. */
const kitClass = /\bm_[0-9a-f]{6,8}\b/g

/**
 * Removes the rules of components that no page uses: the kit's style sheet covers all of them. A rule stays if a script has all the
 * classes of one of its selectors.
 */
export function unusedStyles(): Plugin {
  return {
    name: 'unused-styles',
    apply: 'build',
    enforce: 'post',
    generateBundle(_, bundle) {
      const files = Object.values(bundle)
      const used = new Set(files.flatMap(file => (file.type === 'chunk' ? (file.code.match(kitClass) ?? []) : [])))
      const isUsed = (selector: string) => (selector.match(kitClass) ?? []).every(name => used.has(name))
      for (const file of files) {
        if (file.type !== 'asset' || !file.fileName.endsWith('.css')) continue
        const sheet = postcss.parse(String(file.source))
        sheet.walkRules(rule => {
          const selectors = rule.selectors.filter(isUsed)
          if (selectors.length === 0) rule.remove()
          else if (selectors.length < rule.selectors.length) rule.selectors = selectors
        })
        sheet.walkAtRules(rule => {
          if (rule.nodes?.length === 0) rule.remove()
        })
        file.source = sheet.toString()
      }
    },
  }
}
