import { onContentUpdated, type Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { nextTick, onMounted } from 'vue'
import { searchRanking } from './search-ranking.ts'
import './style.css'

/** The address that the examples have in the repository, where no gateway serves them. */
const example = /\b(http|ws):\/\/localhost:3000\b/g

/** Gives the examples of a page the address of the gateway that serves it, so that they work as they are copied. */
function nameOwnHost(): void {
  for (const block of document.querySelectorAll('.vp-doc pre code, .vp-doc :not(pre) > code')) {
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT)
    for (let text = texts.nextNode(); text !== null; text = texts.nextNode())
      text.nodeValue = text.nodeValue!.replace(example, (_, scheme) => location.origin.replace(/^http/, scheme))
  }
}

const theme: Theme = {
  extends: DefaultTheme,
  setup() {
    onMounted(nameOwnHost)
    onContentUpdated(() => void nextTick(nameOwnHost))
  },
  // Not in config.ts: functions there reach the browser as text, which the content policy does not let it evaluate.
  enhanceApp({ siteData }) {
    const { search } = siteData.value.themeConfig
    search.options = { ...search.options, miniSearch: { searchOptions: searchRanking } }
  },
}

export default theme
