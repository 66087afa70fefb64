import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { searchRanking } from './search-ranking.ts'
import './style.css'

const theme: Theme = {
  extends: DefaultTheme,
  // Not in config.ts: functions there reach the browser as text, which the content policy does not let it evaluate.
  enhanceApp({ siteData }) {
    const { search } = siteData.value.themeConfig
    search.options = { ...search.options, miniSearch: { searchOptions: searchRanking } }
  },
}

export default theme
