import { Page } from '../components/page.tsx'

export default function Keys() {
  return <Page title="API keys">{null}</Page>
}
