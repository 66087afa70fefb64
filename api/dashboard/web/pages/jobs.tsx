import { Page } from '../components/page.tsx'

export default function Jobs() {
  return <Page title="Jobs">{null}</Page>
}
