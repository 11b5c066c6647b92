//! One client for the whole process: `cargo run -p outflow --example global -- outflow.toml API /path`.

use std::time::Duration;

use outflow::Config;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(api), Some(path)) = (args.next(), args.next(), args.next()) else {
        println!("usage: global FILE API PATH, for example outflow.toml github /zen");
        return Ok(());
    };
    let client = outflow::init(Config::from_file(&file)?)?;
    print_page(&api, &path).await;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

/// Needs no client of its caller.
async fn print_page(api: &str, path: &str) {
    match outflow::get(api, path).send().await {
        Ok(response) => println!("{} after waiting {:?}", response.status(), response.waited()),
        Err(error) => println!("{error}"),
    }
}
